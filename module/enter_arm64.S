/* void go_parse(struct call *call), void go_decide(struct call *call): from C into Go.
 *
 * C passes the call in x0, and expects x19 to x29 and d8 to d15 preserved (AAPCS64, 6.1). Go takes
 * it in x0, too, preserves no register, and may keep the argument at 8(sp) and the frame pointer
 * below sp (Go's internal ABI, https://go.dev/s/regabi). Go keeps its goroutine in x28, which only
 * code that needs the runtime reads. */

.macro enter name, function
    .weak "\function" /* cgo also links this object without Go */
    .section .text.\name, "ax", @progbits
    .balign 4
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
    stp x29, x30, [sp, #-160]!
    .cfi_def_cfa_offset 160
    .cfi_offset x29, -160
    .cfi_offset x30, -152
    mov x29, sp
    .cfi_def_cfa_register x29
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    .cfi_offset x19, -144
    .cfi_offset x20, -136
    .cfi_offset x21, -128
    .cfi_offset x22, -120
    .cfi_offset x23, -112
    .cfi_offset x24, -104
    .cfi_offset x25, -96
    .cfi_offset x26, -88
    .cfi_offset x27, -80
    .cfi_offset x28, -72
    sub sp, sp, #16 /* 8 bytes for Go's argument; the stack stays aligned to 16 bytes */
    bl "\function"
    add sp, sp, #16
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

enter go_parse, funnel/module/command.Parse
enter go_decide, funnel/module/command.Decide
enter go_overwrite, overwrite_registers

    .section .text.overwrite_registers, "ax", @progbits
    .balign 4
    .hidden overwrite_registers
    .type overwrite_registers, @function
overwrite_registers:
    stp xzr, xzr, [x0] /* on arm64, Go expects no register to be 0 */
    .irp number, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,21,22,23,24,25,26,27,28,29
    mov x\number, #-1
    .endr
    .irp number, 8,9,10,11,12,13,14,15
    fmov d\number, #-1.0
    .endr
    ret
    .size overwrite_registers, . - overwrite_registers

    .section .data.rel.ro.go_code, "aw", @progbits
    .balign 8
    .globl go_code
    .hidden go_code
    .type go_code, @object
go_code:
    .quad "funnel/module/command.Parse"
    .size go_code, . - go_code

    .section .note.GNU-stack, "", @progbits
