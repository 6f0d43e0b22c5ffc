/* void go_parse(struct call *call), void go_decide(struct call *call): from C into Go.
 *
 * C passes the call in %rdi, and expects %rbx, %rbp and %r12 to %r15 preserved (System V ABI,
 * AMD64 supplement, 3.2.1). Go takes it in %rax, expects %xmm15 to be 0, preserves no register, and
 * may keep the argument in the 8 bytes that follow the return address (Go's internal ABI,
 * https://go.dev/s/regabi). Go keeps its goroutine in %r14, which only code that needs the runtime reads. */

.macro enter name, function
    .weak "\function" /* cgo also links this object without Go */
    .section .text.\name, "ax", @progbits
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    .cfi_offset %rbx, -24
    .cfi_offset %r12, -32
    .cfi_offset %r13, -40
    .cfi_offset %r14, -48
    .cfi_offset %r15, -56
    sub $8, %rsp /* 8 bytes for Go's argument; they also align the stack to 16 bytes */
    mov %rdi, %rax
    xorps %xmm15, %xmm15
    call "\function"
    add $8, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

enter go_parse, funnel/module/command.Parse
enter go_decide, funnel/module/command.Decide
enter go_overwrite, overwrite_registers

    .section .text.overwrite_registers, "ax", @progbits
    .hidden overwrite_registers
    .type overwrite_registers, @function
overwrite_registers:
    movups %xmm15, (%rax)
    mov $-1, %rax
    .irp register, rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15
    mov %rax, %\register
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
