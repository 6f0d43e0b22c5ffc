package throttle

// Functions are the addresses of the functions that C calls: go_parse leads to parse
// and go_decide to decide. Nobody needs the addresses: to name the functions here is
// what keeps the linker from leaving them out.
func Functions() (goParse, goDecide uintptr)
