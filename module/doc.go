// Package module is the Redis module funnel: CL.THROTTLE, CL.RESERVE, CL.PEEK, CL.CHARGE
// and CL.REFUND, written in Go, behind a thin boundary of C.
//
// # The idea
//
// A server calls a module through C functions and hands out its keys, strings
// and replies through C functions too. C decides nothing and Go touches no key:
//
//	server ──> throttle.c, funnels.c   point at the arguments
//	               ▼
//	           throttle/               Go: parses them, words the errors
//	               ▼
//	           key.c, clock.c          open the keys, point at the stored values, read the clock
//	               ▼
//	           throttle/               Go: asks package gcra
//	               ▼
//	           key.c, reply.c          write the keys, replicate, reply
//
// One struct (call.h) crosses over, twice, whatever the number of funnels. Go runs there
// like a function of C, and its runtime never starts: docs/go-runtime.md.
//
// # The files
//
//   - abi.h, abi.c: the part of the Redis Modules ABI that is used, found by name
//     at load time. No header file of the server is needed or copied.
//   - load.c: what happens on MODULE LOAD.
//   - compat.c: the load argument compat, and the setting of that name.
//   - commands.c, command_info.h: registration of the commands, with their flags, keys,
//     documentation and ACL categories.
//   - throttle.c: CL.THROTTLE as the server sees it.
//   - funnels.c: the commands that take several funnels, as the server sees them.
//   - key.c: the key of a funnel: reading, writing, replication, events.
//   - reply.c: replies with errors, and the counts that INFO shows.
//   - call.h, call.c: what crosses from C to Go, the entry points, and the calls that
//     prove them when the module is loaded.
//   - throttle/: the commands as Go sees them, free of cgo and tested without a server;
//     layout.go, where the compiler checks that both see the same structs.
//   - clock.c: the time.
//   - unload.c: when MODULE UNLOAD is granted.
//   - version.h: the version.
//   - debug.c, debug.go: FUNNEL.DEBUG, only in builds with the tag funneldebug,
//     through which tests set the clock.
//
// The package exports nothing to Go. Importing it into a package main that is
// built with -buildmode=c-shared makes what the program funnel-finish turns into the
// module.
package module

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
import "C"
