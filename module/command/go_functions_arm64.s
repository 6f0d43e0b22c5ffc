#include "textflag.h"

// C passes the call in R0 and expects R19 to R30 and the lower halves of V8 to V15
// preserved; the assembler itself preserves R29 and R30. Go passes it on the stack,
// after the return address, and preserves nothing.
#define C_FUNCTION(name, function) \
TEXT name<>(SB), NOSPLIT, $160-0 \
	STP (R19, R20), 16(RSP) \
	STP (R21, R22), 32(RSP) \
	STP (R23, R24), 48(RSP) \
	STP (R25, R26), 64(RSP) \
	STP (R27, g), 80(RSP) \
	FSTPD (F8, F9), 96(RSP) \
	FSTPD (F10, F11), 112(RSP) \
	FSTPD (F12, F13), 128(RSP) \
	FSTPD (F14, F15), 144(RSP) \
	MOVD R0, 8(RSP) \
	CALL function(SB) \
	LDP 16(RSP), (R19, R20) \
	LDP 32(RSP), (R21, R22) \
	LDP 48(RSP), (R23, R24) \
	LDP 64(RSP), (R25, R26) \
	LDP 80(RSP), (R27, g) \
	FLDPD 96(RSP), (F8, F9) \
	FLDPD 112(RSP), (F10, F11) \
	FLDPD 128(RSP), (F12, F13) \
	FLDPD 144(RSP), (F14, F15) \
	RET

// void go_parse(struct call *call); void go_decide(struct call *call)
C_FUNCTION(go_parse, ·parse)
C_FUNCTION(go_decide, ·decide)

// func Functions() (goParse, goDecide uintptr)
TEXT ·Functions(SB), NOSPLIT, $0-16
	MOVD $go_parse<>(SB), R0
	MOVD R0, goParse+0(FP)
	MOVD $go_decide<>(SB), R0
	MOVD R0, goDecide+8(FP)
	RET
