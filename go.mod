module funnel

go 1.26.8
