#include "textflag.h"

// A jump of two bytes, by one byte, into an instruction of two.
TEXT ·jumpsBetweenInstructions(SB), NOSPLIT, $0
	BYTE $0xEB
	BYTE $0x01
	XORL AX, AX
	RET

TEXT ·entersKernel(SB), NOSPLIT, $0
	MOVQ $39, AX
	SYSCALL
	RET

TEXT ·clears(SB), NOSPLIT, $0
	XORL AX, AX
	CALL runtime·memclrNoHeapPointers(SB)
	RET

TEXT ·takesAddress(SB), NOSPLIT, $0
	LEAQ ·clears(SB), AX
	RET

// The last instruction does not always jump.
TEXT ·fallsOffItsEnd(SB), NOSPLIT, $0-0
again:
	DECQ AX
	JNE again

TEXT ·usesUnknown(SB), NOSPLIT, $0
	VZEROUPPER
	RET

TEXT ·pushesAndReturns(SB), NOSPLIT|NOFRAME, $0
	BYTE $0x50
	RET

TEXT ·losesItsStack(SB), NOSPLIT|NOFRAME, $0
	MOVQ AX, SP
	RET

TEXT ·takesTwoWays(SB), NOSPLIT|NOFRAME, $0
	TESTQ AX, AX
	JEQ both
	BYTE $0x50
both:
	BYTE $0x58
	RET
