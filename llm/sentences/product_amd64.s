#include "textflag.h"

// func multiplyAVX2(row string, four []int16, sums *[4]int32)
//
// Y4 has 16 weights; Y0 to Y3 have 8 partial sums each, one for each of the
// four rows that begin at DI, R8, R9 and R10.
TEXT ·multiplyAVX2(SB), NOSPLIT, $0-48
	MOVQ row_base+0(FP), SI
	MOVQ row_len+8(FP), CX
	MOVQ four_base+16(FP), DI
	MOVQ sums+40(FP), DX
	LEAQ (DI)(CX*2), R8
	LEAQ (R8)(CX*2), R9
	LEAQ (R9)(CX*2), R10
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	XORQ AX, AX

next:
	VPMOVSXBW (SI)(AX*1), Y4
	VPMADDWD (DI)(AX*2), Y4, Y5
	VPMADDWD (R8)(AX*2), Y4, Y6
	VPMADDWD (R9)(AX*2), Y4, Y7
	VPMADDWD (R10)(AX*2), Y4, Y8
	VPADDD Y5, Y0, Y0
	VPADDD Y6, Y1, Y1
	VPADDD Y7, Y2, Y2
	VPADDD Y8, Y3, Y3
	ADDQ $16, AX
	CMPQ AX, CX
	JLT next

	// Eight partial sums of each row become one; the four end side by side.
	VPHADDD Y1, Y0, Y0
	VPHADDD Y3, Y2, Y2
	VPHADDD Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDD X1, X0, X0
	VMOVDQU X0, (DX)
	VZEROUPPER
	RET
