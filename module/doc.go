// Package module is the Redis module funnel: its commands, written in Go, behind a thin
// boundary of C.
//
// # The idea
//
// A server calls a module through C functions, and hands out its keys, strings
// and replies through C functions, too. C decides nothing, and Go touches no key:
//
//	server ──> commands.c          points at the arguments
//	               ▼
//	           answer/             Go: parses them, words the errors
//	               ▼
//	           key.c, clock.c      open the keys, point at the stored values, read the clock
//	               ▼
//	           answer/             Go: asks package gcra
//	               ▼
//	           key.c, reply.c      write the keys, replicate, reply
//
// One struct (call.h) crosses over, twice, whatever the number of funnels. Go runs
// like a C function, and its runtime never starts: docs/go-runtime.md.
//
// # The files
//
//   - abi.h, abi.c: the part of the Redis Modules ABI that funnel uses.
//   - load.c, compat.c, register.c, unload.c: loading, with its argument; the description of
//     the commands to the server; when MODULE UNLOAD is granted.
//   - commands.c: the table of the commands, and the function that answers all of them.
//   - key.c, slots.c: reading and writing a key, replication, events.
//   - reply.c: the replies, and the counts that INFO shows.
//   - call.h, call.c, layout.go: the structs that cross from C to Go, and what checks them
//     when the module is compiled and when it is loaded.
//   - enter_amd64.S, enter_arm64.S: from C's calling convention to Go's.
//   - answer/: the commands as Go sees them, free of cgo and tested without a server.
//   - clock.c, debug.go: the time, and FUNNEL.DEBUG, with which tests set it.
//
// The package exports nothing to Go. A package main that imports it and is built with
// -buildmode=c-shared becomes the module. Its linker is cmd/funnel-link.
package module

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
import "C"
