#pragma once

#include <any>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>

#include "model/tensor/allocator.h"

namespace gradsync::model {

class Tensor;  // model/tensor/tensor.h
class Var;     // model/autograd.h

// Receives the start and the end of named ranges: one for each operation of a backward pass, and ranges of
// callers. Ranges nest. Implementations write a trace or NVTX ranges.
class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void Begin(std::string_view name) = 0;
  virtual void End() = 0;
  // Called after an operation of a forward pass has been given to the device. All work since the last call,
  // or since the last range, belongs to this operation. Its backward pass will be a range of this name.
  // `inputs` does not contain token ids; a missing optional input is undefined.
  virtual void Computed(std::string_view /*name*/, const Tensor& /*output*/,
                        std::span<const Var> /*inputs*/) {}
};

// Reports the lifetime of this object as a range to a tracer. Does nothing without a tracer.
class TraceRange {
 public:
  TraceRange(Tracer* tracer, std::string_view name) : tracer_(tracer) {
    if (tracer_ != nullptr) tracer_->Begin(name);
  }
  ~TraceRange() {
    if (tracer_ != nullptr) tracer_->End();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

 private:
  Tracer* const tracer_;
};

// The processor of a rank, with its memory, the number of compute threads, and cached library primitives of
// kernels. Each rank has its own Device, so that several ranks can be threads of one process and share
// nothing.
//
// Only the thread that runs the rank's model uses a device; other threads may use only allocator().
class Device {
 public:
  enum class Type { kCpu, kCuda };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Type type() const { return type_; }
  bool is_cpu() const { return type_ == Type::kCpu; }
  // Returns the number among devices of its type: the CUDA ordinal; 0 for the CPU.
  int index() const { return index_; }
  // Returns "cpu" or "cuda:0".
  std::string name() const;
  // Returns the number of threads of a CPU kernel. Kernels pass it to every library that they use.
  int num_threads() const { return num_threads_; }
  CachingAllocator& allocator() { return allocator_; }

  // Copies `bytes` between this device and this device or the host. On CUDA the copy is part of the compute
  // stream, and a copy from or to the host is complete on return.
  virtual void Copy(void* target, const void* source, size_t bytes) = 0;
  // Sets `bytes` at `target` to zero.
  virtual void Zero(void* target, size_t bytes) = 0;
  // Returns when all work given to the device is done. On the CPU it returns immediately.
  virtual void Synchronize() = 0;

  // Returns the T of this device, made as T(device) at the first call: a kernel's cache of library
  // primitives, a library handle. The T exists until the device is destroyed, so it must not contain tensors
  // of the device.
  template <class T>
  T& Resource() {
    std::any& slot = resources_[std::type_index(typeid(T))];
    if (!slot.has_value()) slot = std::make_shared<T>(*this);
    return *std::any_cast<const std::shared_ptr<T>&>(slot);
  }

  // Returns the tracer of set_tracer; null if there is none. The device does not own the tracer.
  Tracer* tracer() const { return tracer_; }
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }

 protected:
  Device(Type type, int index, int num_threads, std::unique_ptr<MemorySource> memory);

  // Destroys resources early, for a derived class whose resources must be destroyed before its other members.
  void DropResources() { resources_.clear(); }

 private:
  const Type type_;
  const int index_;
  const int num_threads_;
  CachingAllocator allocator_;
  std::unordered_map<std::type_index, std::any> resources_;
  Tracer* tracer_ = nullptr;
};

using DevicePtr = std::shared_ptr<Device>;

// Returns a CPU device whose kernels use `num_threads` threads (at least 1). Throws InvalidInput.
DevicePtr CpuDevice(int num_threads = 1);

// Makes this thread, and threads that it starts later, treat denormal numbers as zeros. Some processors
// compute many times more slowly with denormal numbers, for example with the optimizer's moments of a
// parameter that has had no gradient for many steps.
void FlushDenormals();

}  // namespace gradsync::model
