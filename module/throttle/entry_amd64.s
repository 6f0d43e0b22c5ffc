#include "textflag.h"

// func Entry() uintptr
TEXT ·Entry(SB), NOSPLIT, $0-8
	LEAQ entry<>(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// void entry(struct throttle_call *call)
//
// C passes the call in DI and wants BX, BP and R12 to R15 back as they were, of
// which the assembler itself keeps BP. Go passes it on the stack and keeps nothing.
TEXT entry<>(SB), NOSPLIT, $48-0
	MOVQ BX, 8(SP)
	MOVQ R12, 16(SP)
	MOVQ R13, 24(SP)
	MOVQ R14, 32(SP)
	MOVQ R15, 40(SP)
	MOVQ DI, 0(SP)
	CALL ·answer(SB)
	MOVQ 8(SP), BX
	MOVQ 16(SP), R12
	MOVQ 24(SP), R13
	MOVQ 32(SP), R14
	MOVQ 40(SP), R15
	RET
