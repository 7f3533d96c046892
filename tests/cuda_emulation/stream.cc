// Emulated streams, events and launches.

#include "tests/cuda_emulation/stream.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cuda_emulation {
namespace {

// The default and the maximum shared memory of a block on a GPU of compute capability 8.0.
constexpr size_t kSharedBytes = size_t{48} << 10;
constexpr size_t kMaxSharedBytes = size_t{163} << 10;
constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;
constexpr unsigned kMaxThreads = 1024;
// The number of queries of an event that return "not ready" before the event's work runs.
constexpr int kPatience = 10;
// The maximum number of tasks in a stream.
constexpr size_t kMaxTasks = 1024;

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<CUstream_st*> streams;
  std::map<const void*, size_t> shared_bytes;  // shared memory that a kernel may use
};

// Returns the state. It is never destroyed, like the state of CUDA.
State& Global() {
  static State* const state = new State;
  return *state;
}

// Runs the first task of the stream. Returns false if it cannot run yet.
bool RunFirst(CUstream_st& stream) {
  if (stream.tasks.front().prepare && !stream.tasks.front().prepare()) return false;
  const Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  task.run();
  return true;
}

}  // namespace

std::mutex& Mutex() { return Global().mutex; }

void Put(CUstream_st* stream, Task task) {
  stream->tasks.push_back(std::move(task));
  Notify();
}

void Put(CUstream_st* stream, std::function<void()> run) {
  Put(stream, Task{.prepare = nullptr, .run = std::move(run)});
}

std::shared_ptr<Mark> PutMark(CUstream_st* stream) {
  auto mark = std::make_shared<Mark>(Mark{.stream = stream});
  Put(stream, [mark] {
    mark->is_done = true;
    mark->done_at = std::chrono::steady_clock::now();
  });
  return mark;
}

bool Reach(Mark& mark) {
  CUstream_st& stream = *mark.stream;
  if (mark.is_done) return true;
  if (stream.is_running) return false;  // the stream is already being run
  const MemoryAccess access;
  stream.is_running = true;
  while (!mark.is_done && RunFirst(stream)) {
  }
  stream.is_running = false;
  if (!mark.is_done) return false;
  if (stream.is_destroyed && stream.tasks.empty()) {
    Global().streams.erase(&stream);
    delete &stream;
  }
  return true;
}

void Wait(std::unique_lock<std::mutex>& lock, Mark& mark) {
  while (!Reach(mark)) Global().changed.wait(lock);
}

void WaitForRoom(std::unique_lock<std::mutex>& lock, CUstream_st* stream) {
  if (stream->tasks.size() < kMaxTasks) return;
  const auto mark = PutMark(stream);
  Wait(lock, *mark);
}

void Notify() { Global().changed.notify_all(); }

cudaError_t Launch(const Grid& grid, const void* kernel, cudaStream_t stream, std::function<void()> thread) {
  std::unique_lock lock(Mutex());
  const auto allowed = Global().shared_bytes.find(kernel);
  const size_t max_shared_bytes = allowed == Global().shared_bytes.end() ? kSharedBytes : allowed->second;
  if (grid.blocks == 0 || grid.blocks > kMaxBlocks || grid.threads == 0 || grid.threads > kMaxThreads) {
    return LastError(cudaErrorInvalidConfiguration);
  }
  if (grid.shared_bytes > max_shared_bytes) return LastError(cudaErrorInvalidValue);
  if (stream == nullptr || stream->device != CurrentDevice()) {
    return LastError(cudaErrorInvalidResourceHandle);
  }
  WaitForRoom(lock, stream);
  Put(stream, [grid, thread = std::move(thread)] { RunGrid(grid, thread); });
  return cudaSuccess;
}

}  // namespace cuda_emulation

using cuda_emulation::CurrentDevice;
using cuda_emulation::Global;
using cuda_emulation::kPatience;
using cuda_emulation::LastError;
using cuda_emulation::Mark;
using cuda_emulation::Mutex;

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const std::lock_guard lock(Mutex());
  if (value < 0 || static_cast<size_t>(value) > cuda_emulation::kMaxSharedBytes) {
    return LastError(cudaErrorInvalidValue);
  }
  Global().shared_bytes[kernel] = std::max(cuda_emulation::kSharedBytes, static_cast<size_t>(value));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const std::lock_guard lock(Mutex());
  *stream = new CUstream_st{.device = CurrentDevice()};
  Global().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(Mutex());
  stream->is_destroyed = true;
  if (!stream->tasks.empty()) return cudaSuccess;
  Global().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::unique_lock lock(Mutex());
  const auto mark = cuda_emulation::PutMark(stream);
  Wait(lock, *mark);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  std::unique_lock lock(Mutex());
  std::vector<std::shared_ptr<Mark>> marks;
  for (CUstream_st* const stream : Global().streams) {
    if (stream->device == CurrentDevice()) marks.push_back(cuda_emulation::PutMark(stream));
  }
  for (const auto& mark : marks) Wait(lock, *mark);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::unique_lock lock(Mutex());
  if (event->mark == nullptr) return cudaSuccess;
  cuda_emulation::WaitForRoom(lock, stream);
  cuda_emulation::Put(stream, {.prepare = [mark = event->mark] { return Reach(*mark); }, .run = [] {}});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st{.device = CurrentDevice(), .has_time = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::unique_lock lock(Mutex());
  if (event->device != stream->device) return LastError(cudaErrorInvalidResourceHandle);
  cuda_emulation::WaitForRoom(lock, stream);
  event->mark = cuda_emulation::PutMark(stream);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(Mutex());
  if (event->mark == nullptr || event->mark->is_done) return cudaSuccess;
  if (++event->mark->times_asked > kPatience && Reach(*event->mark)) return cudaSuccess;
  return LastError(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock lock(Mutex());
  const auto mark = event->mark;
  if (mark != nullptr) Wait(lock, *mark);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t earlier, cudaEvent_t later) {
  const std::lock_guard lock(Mutex());
  for (const cudaEvent_t event : {earlier, later}) {
    if (!event->has_time || event->mark == nullptr) return LastError(cudaErrorInvalidResourceHandle);
    if (!event->mark->is_done) return LastError(cudaErrorNotReady);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(later->mark->done_at - earlier->mark->done_at).count();
  return cudaSuccess;
}
