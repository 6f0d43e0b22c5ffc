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
