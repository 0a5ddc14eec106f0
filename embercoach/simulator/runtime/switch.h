// Give up control to another fiber: what the calling convention preserves goes onto the old stack.
#pragma once

extern "C" {
// Stores the running context to `*from` and goes on with `to`.
__attribute__((visibility("hidden"))) void ember_switch(void** from, void* to);
// Goes on with `to` and forgets the running context.
__attribute__((visibility("hidden"), noreturn)) void ember_leave_to(void* to);
// A context that calls `entry` (which must not return) on the stack that ends at `top`.
__attribute__((visibility("hidden"))) void* ember_fresh_context(void* top, void (*entry)());
}
