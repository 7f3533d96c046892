#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

// The emulated GPUs' queues. Libraries that are emulated put their work in here.

namespace cuda_emulation {

// The one lock of the emulation. Work runs under it.
std::mutex& Mutex();

// A place in a stream that others wait for.
struct Mark {
  CUstream_st* stream = nullptr;
  bool is_done = false;
  int times_asked = 0;
  std::chrono::steady_clock::time_point done_at{};
};

struct Task {
  // Runs what else has to come first. False if that needs work that nobody has put in yet. May be empty.
  std::function<bool()> prepare;
  std::function<void()> run;
};

// All of these are called under the lock.

// Puts work into a stream.
void Put(CUstream_st* stream, Task task);
void Put(CUstream_st* stream, std::function<void()> run);
// Blocks while the stream's queue is full, as CUDA's is at about a thousand: who asks has work to put in.
void WaitForRoom(std::unique_lock<std::mutex>& lock, CUstream_st* stream);
// A mark behind everything that is in the stream.
std::shared_ptr<Mark> PutMark(CUstream_st* stream);
// Runs as little as will do to reach the mark. False if that needs work that nobody has put in yet.
bool Reach(Mark& mark);
// Reaches it, waiting for others to put in work if need be.
void Wait(std::unique_lock<std::mutex>& lock, Mark& mark);
// Those who wait look again whether they can go on.
void Notify();

}  // namespace cuda_emulation

struct CUstream_st {
  int device = 0;
  bool is_running = false;
  bool is_destroyed = false;  // goes when it is empty
  std::deque<cuda_emulation::Task> tasks = {};
};

struct CUevent_st {
  int device = 0;
  bool has_time = false;
  std::shared_ptr<cuda_emulation::Mark> mark = {};  // null if it was never recorded
};

namespace cuda_emulation {

// Who may touch device memory: work while it runs. Nests.
class MemoryAccess {
 public:
  MemoryAccess();
  ~MemoryAccess();
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;
};

// The calling thread's.
int CurrentDevice();
cudaError_t LastError(cudaError_t error);  // remembers it for cudaGetLastError

// Whether `bytes` at the address lie within one block of a GPU's memory.
bool IsDeviceMemory(const void* address, size_t bytes);

}  // namespace cuda_emulation
