// Package module is the Redis module funnel: the command CL.THROTTLE, written in
// Go, behind a thin boundary of C.
//
// # The idea
//
// A server calls a module through C functions and hands out its keys, strings
// and replies through C functions too. C decides nothing and Go touches no key:
//
//	server ──> throttle.c     points at the arguments
//	               ▼
//	           throttle/      Go: parses them, words the errors
//	               ▼
//	           throttle.c     opens the key, points at the stored value, reads the clock
//	               ▼
//	           throttle/      Go: asks package gcra
//	               ▼
//	           throttle.c     writes the key, replicates, replies
//
// One struct (call.h) crosses over, twice. Go runs there like a function of C, and its
// runtime never starts: docs/go-runtime.md.
//
// # The files
//
//   - abi.h, abi.c: the part of the Redis Modules ABI that is used, found by name
//     at load time. No header file of the server is needed or copied.
//   - load.c, command_info.c: what happens on MODULE LOAD: load arguments,
//     registration, command docs, ACL categories, configuration, INFO.
//   - unload.c: when MODULE UNLOAD is granted.
//   - throttle.c: the command as the server sees it.
//   - call.h, call.c: what crosses from C to Go, and the entry points.
//   - throttle/: the command as Go sees it, free of cgo and tested without a server;
//     layout.go, where the compiler checks that both see the same struct.
//   - clock.c: the time.
//   - debug.c, debug.go: FUNNEL.DEBUG, only in builds with the tag funneldebug,
//     through which tests set the clock.
//
// The package exports nothing to Go. Importing it into a package main that is
// built with -buildmode=c-shared makes what the program funnel-finish turns into the
// module.
package module

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
import "C"
