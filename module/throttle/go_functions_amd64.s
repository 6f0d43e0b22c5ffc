#include "textflag.h"

// C passes the call in DI and wants BX, BP and R12 to R15 back as they were, of
// which the assembler itself keeps BP. Go passes it on the stack and keeps nothing.
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

// void go_parse(struct throttle_call *call), and so on
C_FUNCTION(go_parse, ·parse)
C_FUNCTION(go_decide, ·decide)
C_FUNCTION(go_parse_funnels, ·parseFunnels)
C_FUNCTION(go_decide_funnels, ·decideFunnels)

// func Functions() (goParse, goDecide, goParseFunnels, goDecideFunnels uintptr)
TEXT ·Functions(SB), NOSPLIT, $0-32
	LEAQ go_parse<>(SB), AX
	MOVQ AX, goParse+0(FP)
	LEAQ go_decide<>(SB), AX
	MOVQ AX, goDecide+8(FP)
	LEAQ go_parse_funnels<>(SB), AX
	MOVQ AX, goParseFunnels+16(FP)
	LEAQ go_decide_funnels<>(SB), AX
	MOVQ AX, goDecideFunnels+24(FP)
	RET
