#include "textflag.h"

// There is nothing between two instructions of four bytes each.
TEXT ·jumpsBetweenInstructions(SB), NOSPLIT, $0
	JMP (R3)

TEXT ·entersKernel(SB), NOSPLIT, $0
	MOVD $172, R8
	SVC
	RET

TEXT ·clears(SB), NOSPLIT, $0
	MOVD ZR, R0
	CALL runtime·memclrNoHeapPointers(SB)
	RET

TEXT ·takesAddress(SB), NOSPLIT, $0
	MOVD $·clears(SB), R0
	RET

// The last instruction does not always jump.
TEXT ·fallsOffItsEnd(SB), NOSPLIT, $0-0
again:
	SUBS $1, R0
	BNE again

// ADD Z0.B, Z0.B, Z0.B, of SVE
TEXT ·usesUnknown(SB), NOSPLIT, $0
	WORD $0x04200000
	RET

// ADRP of a page 1 GB further, and ADD
TEXT ·readsNowhere(SB), NOSPLIT, $0
	WORD $0x90200000
	WORD $0x91000000
	RET
