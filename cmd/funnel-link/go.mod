module funnel/cmd/funnel-link

go 1.26.0

toolchain go1.26.8

require golang.org/x/arch v0.32.0
