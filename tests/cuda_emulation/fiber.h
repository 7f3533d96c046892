#pragma once

#include <cstddef>
#include <functional>

namespace cuda_emulation {

// A fiber is a stack on which code runs. A fiber that was not started represents the stack of the caller.
// x86-64 only.
//
// This is not ucontext, which makes a system call for the signal mask at every switch and is a hundred times
// slower.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;  // a fiber exists until the program ends
  Fiber& operator=(const Fiber&) = delete;

  // Allocates a stack, on which `main` begins at the first switch. `main` must not return.
  void Start(std::function<void()> main);
  bool started() const { return main_ != nullptr; }

  // Switches from this fiber, which is running, to `other`. Returns when another fiber switches back.
  void SwitchTo(Fiber& other);

 private:
  [[noreturn]] static void Main();
  // Tells a sanitizer that this fiber runs now.
  void Arrive();

  std::function<void()> main_;
  const void* stack_ = nullptr;  // lowest address of the stack
  size_t stack_bytes_ = 0;
  void* stack_pointer_ = nullptr;  // stack pointer while the fiber is not running
  void* sanitizer_ = nullptr;      // state that a sanitizer keeps for the fiber
};

}  // namespace cuda_emulation
