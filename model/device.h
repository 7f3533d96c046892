#ifndef GRADSYNC_MODEL_DEVICE_H_
#define GRADSYNC_MODEL_DEVICE_H_

#include <any>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>

#include "model/allocator.h"

namespace gradsync::model {

class Tensor;  // model/tensor.h
class Var;     // model/autograd.h

// Receives the begin and the end of named ranges: one for each operation of a backward pass, and whatever
// else a caller marks. Ranges nest. Implementations write a trace or NVTX ranges.
class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void Begin(std::string_view name) = 0;
  virtual void End() = 0;
  // An operation of a forward pass has been given to the device: all work since the last call, or the last
  // range, was part of it. Its backward pass will be a range of the same name. Token ids are not among
  // `inputs`; an optional input that is missing is undefined.
  virtual void Computed(std::string_view /*name*/, const Tensor& /*output*/,
                        std::span<const Var> /*inputs*/) {}
};

// Marks its own lifetime on a tracer; without a tracer it does nothing.
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

// The processor that a rank computes on, with everything that lives as long as it does: memory, the number
// of compute threads, and the library primitives that kernels made for it. There is one object per rank,
// not per processor, so that several ranks can be threads of one process and share nothing.
//
// A device is used by the thread that runs the rank's model; only allocator() may be used by others.
class Device {
 public:
  enum class Type { kCpu, kCuda };

  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Type type() const { return type_; }
  bool is_cpu() const { return type_ == Type::kCpu; }
  // Which of several of its type: the CUDA ordinal; 0 for the CPU.
  int index() const { return index_; }
  // "cpu" or "cuda:0".
  std::string name() const;
  // How many threads a kernel on the CPU may use. Kernels pass it to every library underneath.
  int num_threads() const { return num_threads_; }
  CachingAllocator& allocator() { return allocator_; }

  // Copies `bytes` between memory of this device and of this device or the host. On CUDA it is ordered
  // with the compute stream, and a copy from or to the host is complete on return.
  virtual void Copy(void* target, const void* source, size_t bytes) = 0;
  // Sets `bytes` at `target` to zero.
  virtual void Zero(void* target, size_t bytes) = 0;
  // Returns when all work given to the device is done. Immediate on the CPU.
  virtual void Synchronize() = 0;

  // The one T of this device, made as T(device) when first asked for: a kernel's cache of library
  // primitives, a library handle. Lives until the device goes, so it must not hold tensors of the device.
  template <class T>
  T& Resource() {
    std::any& slot = resources_[std::type_index(typeid(T))];
    if (!slot.has_value()) slot = std::make_shared<T>(*this);
    return *std::any_cast<const std::shared_ptr<T>&>(slot);
  }

  // Null unless set_tracer was called. Not owned.
  Tracer* tracer() const { return tracer_; }
  void set_tracer(Tracer* tracer) { tracer_ = tracer; }

 protected:
  Device(Type type, int index, int num_threads, std::unique_ptr<MemorySource> memory);

  // For a derived class whose resources must go before it does.
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

// A CPU device whose kernels use `num_threads` threads (at least 1). Throws InvalidInput.
DevicePtr CpuDevice(int num_threads = 1);

// From now on this thread, and those that it starts, take denormal numbers for zeros: some processors compute
// with them many times more slowly, as with an optimizer's moments of a parameter long without gradient.
void FlushDenormals();

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_DEVICE_H_
