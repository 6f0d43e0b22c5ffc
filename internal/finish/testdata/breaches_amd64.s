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

// LEAQ 0x40000000(IP), AX
TEXT ·readsNowhere(SB), NOSPLIT, $0
	BYTE $0x48; BYTE $0x8D; BYTE $0x05; LONG $0x40000000
	RET
