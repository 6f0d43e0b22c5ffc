#include "textflag.h"

// func Ensure()
//
// The assembler adds the check for room, and the call that grows the stack. The
// frame is that of stackroom.Bytes and holds nothing.
TEXT ·Ensure(SB), 0, $65536-0
	RET
