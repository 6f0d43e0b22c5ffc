package throttle

// Functions are the addresses of the functions that C calls: go_parse leads to parse, and
// so on. The addresses are not used: naming the functions here keeps the linker from
// removing them.
func Functions() (goParse, goDecide, goParseFunnels, goDecideFunnels uintptr)
