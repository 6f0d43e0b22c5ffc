package command

// Functions returns the addresses of the functions that C calls: go_parse, which leads to
// parse, and go_decide. Nobody uses the addresses: naming the functions here keeps the
// linker from removing them.
func Functions() (goParse, goDecide uintptr)
