// Package module is the Redis module funnel: its commands, written in Go, behind a thin boundary of
// C.
//
// # The idea
//
// A server calls a module through C functions, and hands out its keys, strings and replies through
// C functions, too. C decides nothing, and Go touches no key:
//
//	server ──> commands.c          points at the words
//	               ▼
//	           command/            Go: parses them, words the errors
//	               ▼
//	           kinds.h, clock.c    read the states of the keys, read the clock
//	               ▼
//	           command/            Go: has package internal/call decide
//	               ▼
//	           kinds.h, reply.c    write the keys, replicate, reply
//
// One struct (call.h) crosses twice, whatever the number of rows. Go code runs like a C function,
// and the Go runtime never starts: docs/go-runtime.md.
//
// Each row of a call is of a kind: a funnel, slots or a quota. What chooses by kind stands
// together: in the table of kinds.c here, and in the switches of command/kind.go and internal/call.
// They do not compile until they know a new kind. Here it needs a file if it keeps its state in a
// value that no other kind uses, as slots.c does. CONTRIBUTING.md lists all places.
//
// # The files
//
//   - abi.h, abi.c: the part of the Redis Modules ABI that funnel uses.
//   - load.c, compat.c, register.c, unload.c: loading, with its argument; the description of
//     the commands to the server; when MODULE UNLOAD is granted.
//   - commands.c: the table of the commands, and the function that answers all of them.
//   - kinds.h, kinds.c: what happens to the key of a row, by its kind: reading, writing,
//     replication, events. string_key.c: the same for kinds that keep their state in a string.
//     slots.c: the same for slots, which are a sorted set.
//   - reply.c: the replies, and the counts that INFO shows.
//   - call.h, layout.go: the structs that cross from C to Go, and what checks them when the
//     module is compiled. selftest.c: the calls that check the boundary when it is loaded.
//   - enter_amd64.S, enter_arm64.S: from C's calling convention to Go's.
//   - command/: the commands as Go sees them, free of cgo and tested without a server.
//   - clock.c, debug.go: the time, and FUNNEL.DEBUG, with which tests set it.
//
// The package exports nothing to Go. A package main that imports it and is built with
// -buildmode=c-shared becomes the module. Its linker is cmd/funnel-link.
package module

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
import "C"
