#include "switch.h"

#include <stdint.h>

// Mach-O puts an underscore before C names. (Only x86-64 Linux could be tried; the arm64 and Mach-O
// forms follow the same layout.)
#if defined(__APPLE__)
#define SYMBOL "_"
#define HIDE(name) ".private_extern _" name "\n"
#else
#define SYMBOL ""
#define HIDE(name) ".hidden " name "\n"
#endif

#if defined(__x86_64__)
asm(".text\n.p2align 4\n"
    ".globl " SYMBOL "ember_switch\n" HIDE("ember_switch")
    SYMBOL "ember_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  retq\n"
    ".p2align 4\n"
    ".globl " SYMBOL "ember_leave_to\n" HIDE("ember_leave_to")
    SYMBOL "ember_leave_to:\n"
    "  movq %rdi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  retq\n");

void* ember_fresh_context(void* top, void (*entry)()) {
  // At a function's first instruction the stack pointer is 8 off a multiple of 16.
  auto* frame = (uintptr_t*)((uintptr_t)top & ~(uintptr_t)15) - 8;
  for (int i = 0; i < 8; i++) frame[i] = 0;
  frame[6] = (uintptr_t)entry;
  return frame;
}

#elif defined(__aarch64__)
asm(".text\n.p2align 2\n"
    ".globl " SYMBOL "ember_switch\n" HIDE("ember_switch")
    SYMBOL "ember_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n"
    "  mov x0, x1\n"
    "  b " SYMBOL "ember_leave_to\n"
    ".p2align 2\n"
    ".globl " SYMBOL "ember_leave_to\n" HIDE("ember_leave_to")
    SYMBOL "ember_leave_to:\n"
    "  mov sp, x0\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");

void* ember_fresh_context(void* top, void (*entry)()) {
  auto* frame = (uintptr_t*)((uintptr_t)top & ~(uintptr_t)15) - 20;
  for (int i = 0; i < 20; i++) frame[i] = 0;
  frame[11] = (uintptr_t)entry;  // x30
  return frame;
}
#else
#error "the simulator runs on x86-64 and arm64"
#endif
