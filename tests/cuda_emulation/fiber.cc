#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// Saves the registers that a function must preserve (System V ABI), and swaps the stacks.
extern "C" void CudaEmulationSwitch(void** from, void* to);
asm(R"(
  .text
  .type CudaEmulationSwitch, @function
CudaEmulationSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size CudaEmulationSwitch, . - CudaEmulationSwitch
)");

namespace cuda_emulation {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kSavedRegisters = 6;

// The fibers of the last switch. One thread at a time switches.
Fiber* from = nullptr;
Fiber* to = nullptr;

}  // namespace

void Fiber::Start(std::function<void()> main) {
  main_ = std::move(main);
  void* const stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kGuardBytes, PROT_NONE) != 0) std::abort();
  stack_ = stack;
  stack_bytes_ = kStackBytes;
  // The initial stack for CudaEmulationSwitch: registers, the return address, and memory for Main's own
  // return address.
  auto* const top = reinterpret_cast<void**>(static_cast<char*>(stack) + kStackBytes) - 1;
  *top = nullptr;
  *(top - 1) = reinterpret_cast<void*>(&Main);
  stack_pointer_ = top - 1 - kSavedRegisters;
#ifdef __SANITIZE_THREAD__
  sanitizer_ = __tsan_create_fiber(0);
#endif
}

void Fiber::Main() {
  to->Arrive();
  to->main_();
  std::abort();
}

void Fiber::SwitchTo(Fiber& other) {
  from = this;
  to = &other;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&sanitizer_, other.stack_, other.stack_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
  if (!started()) sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(other.sanitizer_, 0);
#endif
  CudaEmulationSwitch(&stack_pointer_, other.stack_pointer_);
  Arrive();
}

void Fiber::Arrive() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(sanitizer_, &from->stack_, &from->stack_bytes_);
#endif
}

}  // namespace cuda_emulation
