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

// A Tracer is told when each named range of time begins and ends, by calls of Begin and End. The constructor
// of a TraceRange calls Begin, and its destructor calls End. Backward (model/autograd.h) makes a TraceRange
// with the operation's name around each operation's computation of gradients. A range may contain other
// ranges. Classes derived from Tracer record times, count floating-point operations or pass the ranges to a
// profiler.
class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void Begin(std::string_view name) = 0;
  virtual void End() = 0;
  // Every operation of a forward pass, such as "linear", calls Computed of its device's tracer: on the CPU
  // after it has run its kernels, on a GPU after it has enqueued them. If a tracer measures times, an
  // operation's time begins at the previous call of Computed or at the end of the previous range
  // (TraceRange), whichever is later. `inputs` are the operation's inputs, without token ids and the targets
  // of cross-entropy. An optional input that the caller left out is an undefined Var.
  virtual void Computed(std::string_view /*name*/, const Tensor& /*output*/,
                        std::span<const Var> /*inputs*/) {}
};

// A TraceRange calls tracer->Begin in its constructor and tracer->End in its destructor. A TraceRange does
// nothing if `tracer` is null.
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

// The CPU or GPU on which a rank computes, with its memory allocator, number of threads, and library handles.
// Each rank has its own Device object, so that several ranks can run as threads of one process without
// sharing an allocator, handles or caches.
//
// A Device is not thread safe: only the thread that runs the rank's model may call functions of the Device
// that are not const. Other threads may use allocator(). On the CPU, they may also call Copy and Zero.
class Device {
 public:
  enum class Type { kCpu, kCuda };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Type type() const { return type_; }
  bool is_cpu() const { return type_ == Type::kCpu; }
  // Returns the CUDA ordinal of a GPU; 0 for the CPU.
  int index() const { return index_; }
  // Returns "cpu", or "cuda:" and index(), such as "cuda:0".
  std::string name() const;
  // Returns the largest number of threads that a CPU kernel uses, also in libraries such as oneDNN; 1 for a
  // GPU.
  int num_threads() const { return num_threads_; }
  CachingAllocator& allocator() { return allocator_; }

  // Copies `bytes` bytes from `source` to `target`: within this device's memory, or from or to CPU memory. On
  // CUDA the copy is enqueued in the compute stream; a copy from or to CPU memory is complete on return.
  virtual void Copy(void* target, const void* source, size_t bytes) = 0;
  virtual void Zero(void* target, size_t bytes) = 0;
  // Blocks until all work on a GPU's compute stream is done. On the CPU this function does nothing.
  virtual void Synchronize() = 0;

  // Returns this device's only object of type T, such as a library handle or a kernel's cache. The first call
  // for a type T makes the object as T(device). The object is destroyed with the device. T must not contain
  // tensors, because a tensor keeps its device alive: the device would never be destroyed.
  template <class T>
  T& Resource() {
    std::any& slot = resources_[std::type_index(typeid(T))];
    if (!slot.has_value()) slot = std::make_shared<T>(*this);
    return *std::any_cast<const std::shared_ptr<T>&>(slot);
  }

  // Returns the tracer, which the device does not own; null if there is none.
  Tracer* tracer() const { return tracer_; }
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }

 protected:
  Device(Type type, int index, int num_threads, std::unique_ptr<MemorySource> memory);

  // Destroys all objects, such as library handles, that Resource() has made. The destructor of a derived
  // class must call DropResources if the destructors of these objects need members of the derived class.
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

// Returns a CPU device whose kernels use up to `num_threads` threads. Throws InvalidInput if `num_threads` is
// less than 1.
DevicePtr CpuDevice(int num_threads = 1);

// Makes the calling thread, and threads that it starts later, treat denormal numbers (in f32, of magnitude
// below 1.2e-38) as zeros. Many CPUs compute much more slowly with denormal numbers. Denormal numbers occur
// in AdamW's moments (running averages) of weights whose gradients stay 0.
void FlushDenormals();

}  // namespace gradsync::model
