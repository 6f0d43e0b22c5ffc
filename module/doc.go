// Package module is the Redis module funnel: the command CL.THROTTLE, written in
// Go, behind a thin boundary of C.
//
// # The idea
//
// A server calls a module through C functions and hands out its keys, strings
// and replies through C functions too. To cross between C and Go as cgo does costs
// more than to decide on a funnel, so the work is split such that each command
// crosses once, and then without cgo:
//
//	server ──> throttle.c     opens the key, points at the arguments and the stored
//	               │          value, reads the clock
//	               ▼
//	           throttle/      Go: parses, asks package gcra, words the errors
//	               │
//	               ▼
//	           throttle.c     writes the key, replicates, replies
//
// C decides nothing and Go touches no key. One struct (call.h) crosses over. Go
// allocates nothing, keeps no pointer to the server's memory, and cannot panic: it
// runs like a function of C, while the Go runtime sleeps (see package throttle).
//
// # The files
//
//   - abi.h, abi.c: the part of the Redis Modules ABI that is used, found by name
//     at load time. No header file of the server is needed or copied.
//   - load.c, command_info.c: what happens on MODULE LOAD: load arguments,
//     registration, command docs, ACL categories, configuration, INFO.
//   - disconnect.c: what has to happen on MODULE UNLOAD, lest the server crash.
//   - throttle.c, call.h: the command as the server sees it.
//   - throttle/: the command as Go sees it, free of cgo and tested without a server;
//     layout.go, where the compiler checks that both see the same struct.
//   - go_runtime.c, boundary.go: the Go runtime as a guest in the server's process,
//     and the one time that it is entered.
//   - clock.c: the time.
//   - debug.c, debug.go: FUNNEL.DEBUG, only in builds with the tag funneldebug,
//     through which tests set the clock and look inside the Go runtime.
//
// The package exports nothing to Go. Importing it into a package main that is
// built with -buildmode=c-shared makes the module.
package module

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
import "C"
