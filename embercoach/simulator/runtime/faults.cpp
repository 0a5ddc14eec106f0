// Signals: accesses outside of buffers go on with scratch, everything else that would kill the
// process ends the run with a finding; so does its time.
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif

#include "schedule.h"
#include "state.h"

namespace {
constexpr int WORDS = 512;  // of stack searched for a return address in the kernel
constexpr int MOST_MISSES = 10;
u8 signal_stack[64 << 10];
int misses;  // signals that found no thread running

struct Registers {
  u64 pc, sp, link;
};

// (The Darwin forms could not be tried.)
Registers registers_of(void* context) {
  auto* machine = (ucontext_t*)context;
#if defined(__APPLE__) && defined(__x86_64__)
  return {machine->uc_mcontext->__ss.__rip, machine->uc_mcontext->__ss.__rsp, 0};
#elif defined(__APPLE__)
  return {(u64)__darwin_arm_thread_state64_get_pc(machine->uc_mcontext->__ss),
          (u64)__darwin_arm_thread_state64_get_sp(machine->uc_mcontext->__ss),
          (u64)__darwin_arm_thread_state64_get_lr(machine->uc_mcontext->__ss)};
#elif defined(__x86_64__)
  return {(u64)machine->uc_mcontext.gregs[REG_RIP], (u64)machine->uc_mcontext.gregs[REG_RSP], 0};
#else
  return {machine->uc_mcontext.pc, machine->uc_mcontext.sp, machine->uc_mcontext.regs[30]};
#endif
}

bool in_kernel(u64 pc) { return pc - launch->text_start < launch->text_end - launch->text_start; }

// The return address in the kernel's code that lies nearest on the stack; 0 without one.
u64 caller_in_kernel(const Registers& registers) {
  if (in_kernel(registers.link - 1)) return registers.link - 1;
  u64 address = (registers.sp + 7) & ~7ull;
  while (on_guard(address)) address += page_bytes() - address % page_bytes();
  for (int i = 0; i < WORDS && on_stacks(address); i++, address += 8) {
    u64 word = *(u64*)address;
    if (in_kernel(word - 1)) return word - 1;
  }
  return 0;
}

// Where in the kernel a thread is, also while it is in a function that the kernel called.
u64 place_in_kernel(const Registers& registers) {
  return in_kernel(registers.pc) ? registers.pc : caller_in_kernel(registers);
}

enum Division { NO_DIVISION, BY_ZERO, OVERFLOWS };

// GPUs give some number for a quotient by zero; x86-64 raises a signal instead. Continues after the
// instruction with what arm64 gives, in runs with the other pattern with another number: the outputs
// show whether the result is used. (arm64 raises nothing, so nothing is found there.)
Division skip_division(void* context) {
#if defined(__x86_64__)
  auto* machine = (ucontext_t*)context;
#if defined(__APPLE__)
  auto *ip = (u64*)&machine->uc_mcontext->__ss.__rip, *low = (u64*)&machine->uc_mcontext->__ss.__rax,
       *high = (u64*)&machine->uc_mcontext->__ss.__rdx;
#else
  auto *ip = (u64*)&machine->uc_mcontext.gregs[REG_RIP],
       *low = (u64*)&machine->uc_mcontext.gregs[REG_RAX],
       *high = (u64*)&machine->uc_mcontext.gregs[REG_RDX];
#endif
  const u8* code = (const u8*)*ip;
  bool narrow = false, wide = false;
  for (;; code++) {
    if (*code == 0x66)
      narrow = true;
    else if ((*code & 0xf0) == 0x40)
      wide = *code & 8;
    else
      break;
  }
  bool bytes = *code == 0xf6;
  if (!bytes && *code != 0xf7) return NO_DIVISION;
  u8 form = code[1], mode = form >> 6, base = form & 7;
  bool is_signed = (form >> 3 & 7) == 7;
  if (!is_signed && (form >> 3 & 7) != 6) return NO_DIVISION;
  const u8* behind = code + 2;
  if (mode != 3) {
    if (base == 4) base = *behind++ & 7;
    if (mode == 1) behind += 1;
    if (mode == 2 || (mode == 0 && base == 5)) behind += 4;
  }
  u32 bits = bytes ? 8 : narrow ? 16 : wide ? 64 : 32;
  u64 mask = ~0ull >> (64 - bits), dividend = *low & mask;
  // The least number by -1 is itself, in two's complement.
  bool least = is_signed && dividend == 1ull << (bits - 1);
  u64 other = launch->pattern & 1 ? 0 : 7;
  u64 quotient = least ? dividend : other, rest = least ? 0 : dividend ^ other;
  if (bytes) {
    *low = (*low & ~0xffffull) | rest << 8 | quotient;
  } else {
    u64 kept = bits == 16 ? ~mask : 0;
    *low = (*low & kept) | quotient;
    *high = (*high & kept) | rest;
  }
  *ip = (u64)behind;
  return least ? OVERFLOWS : BY_ZERO;
#else
  (void)context;
  return NO_DIVISION;
#endif
}

// The caller is reported too: functions of the Metal library have no lines.
void stop_with(Kind kind, const Registers& registers, Reason reason, int signal, u64 address) {
  u64 pc = place_in_kernel(registers);
  ember_finding* finding = report(kind, pc, caller_in_kernel(registers), -1, reason);
  finding->detail[0] = signal;
  finding->address = address;
  blame_current(finding);
  abandon_run();
}

void die(int signal) {
  struct sigaction standard;
  memset(&standard, 0, sizeof standard);
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (!launch || !current) {
    die(signal);  // not the kernel's: the instruction is tried again and kills
    return;
  }
  Registers registers = registers_of(context);
  Division division = signal == SIGFPE ? skip_division(context) : NO_DIVISION;
  if (division == BY_ZERO && launch->checked) {
    u64 at = place_in_kernel(registers);
    ember_finding* finding = report(UNDEFINED_ARITHMETIC, at, 0, -1, BECAUSE_DIVISION);
    if (finding->count == 1) blame_current(finding);
  }
  if (division != NO_DIVISION) return;
  u64 address = signal == SIGSEGV || signal == SIGBUS ? (u64)info->si_addr : 0;
  u64 pc = place_in_kernel(registers);
  Slot* slot = address ? slot_of(address) : nullptr;
  if (slot) {
    if (!map_scratch(address)) stop_with(CRASH, registers, BECAUSE_SCRATCH, signal, address);
    if (!launch->checked || was_outside(address)) return;
    ember_finding* finding =
        report(OUT_OF_BOUNDS, pc, 0, slot->used ? slot - hot.slots : -1, BECAUSE_NOTHING);
    if (finding->count > 1) return;
    finding->address = address;
    finding->offset = (i64)(address - slot->start - slot->offset);
    blame_current(finding);
    return;
  }
  if (address && on_guard(address)) stop_with(CRASH, registers, BECAUSE_STACK, signal, address);
  stop_with(CRASH, registers, BECAUSE_SIGNAL, signal, address);
}

void on_alarm(int signal, siginfo_t*, void* context) {
  if (!launch) return;
  // Between threads, one of the next signals finds one that can be named.
  Registers registers = registers_of(context);
  bool known = current && place_in_kernel(registers);
  if (!known && ++misses < MOST_MISSES) return;
  if (current)
    stop_with(TIMEOUT, registers, BECAUSE_NOTHING, signal, 0);
  else
    run.stop_requested = 1;
}
}  // namespace

bool catch_faults() {
  static bool caught;
  if (caught) return true;
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof signal_stack;
  if (sigaltstack(&stack, nullptr) != 0) return false;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  action.sa_sigaction = on_fault;
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (int signal : signals)
    if (sigaction(signal, &action, nullptr) != 0) return false;
  action.sa_sigaction = on_alarm;
  action.sa_flags |= SA_RESTART;
  return caught = sigaction(SIGALRM, &action, nullptr) == 0;
}

void start_clock(double seconds) {
  misses = 0;
  struct itimerval timer;
  timer.it_value.tv_sec = (long)seconds;
  timer.it_value.tv_usec = (int)((seconds - (double)(long)seconds) * 1e6) + 1;
  // Again and again, in case the first came while no thread ran.
  timer.it_interval.tv_sec = 0;
  timer.it_interval.tv_usec = 20000;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

void stop_clock() {
  struct itimerval timer;
  memset(&timer, 0, sizeof timer);
  setitimer(ITIMER_REAL, &timer, nullptr);
}
