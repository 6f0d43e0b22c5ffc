package throttle

// Entry is the address of a function for C: void (*)(struct throttle_call *).
func Entry() uintptr
