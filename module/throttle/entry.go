package throttle

// Entry is the address of a function for C: void (*)(struct throttle_call *).
//
//go:noescape
func Entry() uintptr
