#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

// The queues of emulated GPUs. Emulated libraries put their work into these queues.

namespace cuda_emulation {

// The only lock of the emulation. Work runs under this lock.
std::mutex& Mutex();

// A position in a stream for which other code can wait.
struct Mark {
  CUstream_st* stream = nullptr;
  bool is_done = false;
  int times_asked = 0;
  std::chrono::steady_clock::time_point done_at{};
};

struct Task {
  // Runs other work that must come first. Returns false if this depends on work that has not been put into a
  // stream yet. May be empty.
  std::function<bool()> prepare;
  std::function<void()> run;
};

// The caller of the following functions must hold the lock.

// Puts work into a stream.
void Put(CUstream_st* stream, Task task);
void Put(CUstream_st* stream, std::function<void()> run);
// Blocks while the stream's queue is full, like CUDA with about a thousand tasks. Call this before Put.
void WaitForRoom(std::unique_lock<std::mutex>& lock, CUstream_st* stream);
// Puts a mark after all work of the stream.
std::shared_ptr<Mark> PutMark(CUstream_st* stream);
// Runs the least work that is necessary to reach the mark. Returns false if this depends on work that has not
// been put into a stream yet.
bool Reach(Mark& mark);
// Reaches the mark; if necessary, waits until other threads have put work into streams.
void Wait(std::unique_lock<std::mutex>& lock, Mark& mark);
// Wakes waiting threads, which check again whether they can continue.
void Notify();

}  // namespace cuda_emulation

struct CUstream_st {
  int device = 0;
  bool is_running = false;
  bool is_destroyed = false;  // the stream is deleted when it is empty
  std::deque<cuda_emulation::Task> tasks = {};
};

struct CUevent_st {
  int device = 0;
  bool has_time = false;
  std::shared_ptr<cuda_emulation::Mark> mark = {};  // null if it was never recorded
};

namespace cuda_emulation {

// Allows access to device memory while work runs. May be nested.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
};

// Returns the current device of the calling thread.
int CurrentDevice();
cudaError_t LastError(cudaError_t error);  // stores the error for cudaGetLastError

// Returns whether `bytes` bytes at the address are within one block of a GPU's memory.
bool IsDeviceMemory(const void* address, size_t bytes);

}  // namespace cuda_emulation
