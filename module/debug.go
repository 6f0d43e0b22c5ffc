//go:build funneldebug

package module

// #cgo CFLAGS: -DFUNNEL_DEBUG
import "C"
