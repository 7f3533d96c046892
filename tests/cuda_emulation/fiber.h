#pragma once

#include <cstddef>
#include <functional>

namespace cuda_emulation {

// A stack to run on. A fiber that was not started stands for the stack of the caller. x86-64 only.
//
// Not ucontext: that asks the kernel for the signal mask at every switch, a hundred times the cost.
class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;  // lives as long as the program
  Fiber& operator=(const Fiber&) = delete;

  // Gives it a stack, on which `main`, which must not return, begins at the first switch.
  void Start(std::function<void()> main);
  bool started() const { return main_ != nullptr; }

  // From this one, which is running. Returns when something switches back.
  void SwitchTo(Fiber& other);

 private:
  [[noreturn]] static void Main();
  // Tells a sanitizer that this fiber runs now.
  void Arrive();

  std::function<void()> main_;
  const void* stack_ = nullptr;  // its lowest address
  size_t stack_bytes_ = 0;
  void* stack_pointer_ = nullptr;  // while it is not running
  void* sanitizer_ = nullptr;      // what a sanitizer keeps of it
};

}  // namespace cuda_emulation
