#include "textflag.h"

// C passes the call in DI and expects BX, BP and R12 to R15 preserved; the assembler
// itself preserves BP. Go passes it on the stack and preserves nothing.
#define C_FUNCTION(name, function) \
TEXT name<>(SB), NOSPLIT, $48-0 \
	MOVQ BX, 8(SP) \
	MOVQ R12, 16(SP) \
	MOVQ R13, 24(SP) \
	MOVQ R14, 32(SP) \
	MOVQ R15, 40(SP) \
	MOVQ DI, 0(SP) \
	CALL function(SB) \
	MOVQ 8(SP), BX \
	MOVQ 16(SP), R12 \
	MOVQ 24(SP), R13 \
	MOVQ 32(SP), R14 \
	MOVQ 40(SP), R15 \
	RET

// void go_parse(struct call *call); void go_decide(struct call *call)
C_FUNCTION(go_parse, ·parse)
C_FUNCTION(go_decide, ·decide)

// func Functions() (goParse, goDecide uintptr)
TEXT ·Functions(SB), NOSPLIT, $0-16
	LEAQ go_parse<>(SB), AX
	MOVQ AX, goParse+0(FP)
	LEAQ go_decide<>(SB), AX
	MOVQ AX, goDecide+8(FP)
	RET
