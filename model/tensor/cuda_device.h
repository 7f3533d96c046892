#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/tensor/device.h"

// The types cudaStream_t and cudaEvent_t of CUDA's headers are pointers to the structs CUstream_st and
// CUevent_st.
struct CUstream_st;
struct CUevent_st;

// Declares classes for NVIDIA GPUs, their streams, events and pinned CPU memory. In a build without CUDA,
// CudaDeviceCount() is 0, and the constructors of CudaDevice, CudaStream, CudaEvent and PinnedBuffer throw
// InvalidInput.
//
// A function throws CudaError if its CUDA call fails, except destructors and functions for which another
// result is stated. If a kernel fails on the GPU (such as by a read out of bounds), a later CUDA call throws
// CudaError. The message names this later call, not the kernel.
namespace gradsync::model {

// Thrown if a call of the CUDA runtime, or of a library such as cuBLAS, fails. CudaError is also thrown if no
// kernel can compute an operation, for example because the operation needs more blocks than a grid may have.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown if there is too little GPU memory for CudaDevice's allocator(), or too little pinned CPU memory for
// a PinnedBuffer.
class CudaOutOfMemory : public std::bad_alloc {
 public:
  explicit CudaOutOfMemory(std::string message)
      : message_(std::make_shared<const std::string>(std::move(message))) {}
  const char* what() const noexcept override { return message_->c_str(); }

 private:
  std::shared_ptr<const std::string> message_;  // shared, so that copying cannot throw
};

[[noreturn]] void ThrowCudaError(int status, const char* call, const char* file, int line);

// This macro runs `call`, a call of the CUDA runtime, and throws CudaError if the call fails.
#define GRADSYNC_CUDA(call)                                                                            \
  do {                                                                                                 \
    if (const auto gradsync_status = (call); gradsync_status != 0) [[unlikely]]                        \
      ::gradsync::model::ThrowCudaError(static_cast<int>(gradsync_status), #call, __FILE__, __LINE__); \
  } while (false)

// Returns the number of GPUs that CUDA can use; 0 without a GPU, a driver, or CUDA in this build.
int CudaDeviceCount();
// Returns the total memory, in bytes, of the GPU with the number `ordinal`; 0 if there is no such GPU.
size_t CudaMemoryBytes(int ordinal);
// Returns the version of the CUDA runtime library in use, such as "13.0"; "" in a build without CUDA.
std::string CudaRuntimeVersion();
// Returns the newest CUDA version that the driver supports; "" without a driver or in a build without CUDA.
std::string CudaDriverVersion();

class CudaDevice;
class CudaEvent;

// A CUDA stream: a queue of work that the GPU runs in order. A moved-from stream may only be assigned to and
// destroyed. Destroying a stream does not wait for its work.
class CudaStream {
 public:
  enum class Priority { kNormal, kHigh };

  // Makes a new stream of the device. If kernels of two streams wait for free multiprocessors of the GPU, the
  // GPU prefers those of the stream with the higher priority.
  explicit CudaStream(const CudaDevice& device, Priority priority = Priority::kNormal);

  // Makes work that is enqueued in this stream from now on wait until the GPU has reached `event`. Does
  // nothing if `event` was never recorded.
  void Wait(const CudaEvent& event) const;
  // Blocks the calling thread until all work of the stream is done.
  void Synchronize() const;
  // Enqueues a copy of `bytes` bytes in this stream. Source and target may each be memory of this GPU, pinned
  // CPU memory or pageable CPU memory. Until the copy has run, nothing may write the source or use the
  // target. The calling thread may have to wait, at most until the copy has run, if the source or the target
  // is pageable memory, or if both are CPU memory.
  void Copy(void* target, const void* source, size_t bytes) const;

  CUstream_st* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(CUstream_st* handle) const;
  };
  std::unique_ptr<CUstream_st, Destroy> handle_;
};

// A CUDA event: a point in the work of a stream. A moved-from event may only be assigned to and destroyed.
class CudaEvent {
 public:
  enum class Timing { kOff, kOn };  // an event without timing is cheaper

  explicit CudaEvent(const CudaDevice& device, Timing timing = Timing::kOff);

  // Places the event behind all work that has been enqueued in `stream` so far.
  void Record(const CudaStream& stream) const;
  // Returns whether the GPU has reached the event; true for an event that was never recorded.
  bool done() const;
  // Blocks the calling thread until the GPU has reached the event; returns at once if it was never recorded.
  void Synchronize() const;
  // Returns the milliseconds from `earlier` to this event, by the GPU's clock. The resolution is about half a
  // microsecond for times below 8 s, and coarser for longer times. Throws CudaError unless both events have
  // Timing::kOn and were recorded, and the GPU has reached both.
  double MillisecondsSince(const CudaEvent& earlier) const;

  CUevent_st* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(CUevent_st* handle) const;
  };
  std::unique_ptr<CUevent_st, Destroy> handle_;
};

// A buffer of pinned (page-locked) CPU memory. Kernels on the GPU can access it, and the GPU can copy it
// while the CPU does other work. Allocating and freeing pinned memory is slow. Destroy the buffer only when
// no kernel or copy uses it any more.
class PinnedBuffer {
 public:
  // Throws CudaOutOfMemory if there is not enough memory.
  PinnedBuffer(const CudaDevice& device, size_t bytes);

  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

// A GPU with a compute stream, which is a CUDA stream. The kernels of operations, and copies and zero-fills
// of tensors, are enqueued in this stream, in the order of the calls. The calls do not wait until the GPU has
// done the work. But Synchronize, and copies of 1 byte or more from or to CPU memory, return when the compute
// stream is empty.
//
// The memory of a freed tensor may be reused immediately, although the GPU may still have to run kernels that
// use it. This reuse is safe on the compute stream, where kernels that use the memory's next tensor come
// later. Before another stream reads a tensor, that stream must wait for an event that was recorded on the
// compute stream after all work that wrote the tensor. Before another stream writes a tensor, the event must
// come after the tensor's allocation and all earlier work that used the tensor. After the use, record an
// event on the other stream. Keep the tensor until the GPU has reached this event, or until a wait for the
// event is enqueued on the compute stream.
//
// For a token id or target outside of the vocabulary, the kernels Embedding and CrossEntropy write 1 + its
// position to wrong_indices(). The device's next Synchronize, or Copy of 1 byte or more from or to CPU
// memory, throws InvalidInput and resets wrong_indices().
//
// The device, its allocator, kernel launches, and constructors of streams, events and pinned buffers may call
// cudaSetDevice for this GPU. The previous GPU of the calling thread is not restored.
class CudaDevice : public Device {
 public:
  // Makes a device for the GPU with the number `ordinal`, counted from 0, among the GPUs that CUDA sees
  // (CUDA_VISIBLE_DEVICES). Throws InvalidInput if there is no such GPU, or if its compute capability is
  // below 8.0.
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;

  // Casts `device` to a CudaDevice. Throws InvalidInput if `device` is a CPU; in a build with CUDA, the
  // message begins with the caller's name `op`.
  static CudaDevice& Of(Device& device, const char* op);

  void Copy(void* target, const void* source, size_t bytes) override;
  void Zero(void* target, size_t bytes) override;
  void Synchronize() override;

  // `id` is 0, or 1 + the position, in the flattened ids, of a token id outside of the vocabulary. `target`
  // is 0, or 1 + the position, in the flattened targets, of a target outside of the vocabulary. The struct is
  // in pinned CPU memory, which kernels can write.
  struct WrongIndices {
    int64_t id, target;
  };
  WrongIndices& wrong_indices() const { return *static_cast<WrongIndices*>(wrong_indices_->data()); }

  const CudaStream& compute_stream() const { return *compute_stream_; }
  void MakeCurrent() const;

  // Returns whether f32 matrix products and convolutions may use TF32, which rounds their inputs to 10 bits
  // of mantissa and is several times faster. The default is false.
  bool allow_tf32() const { return allow_tf32_; }
  void set_allow_tf32(bool allow) { allow_tf32_ = allow; }

  // Returns the name of the GPU model, such as "NVIDIA H200".
  const std::string& product_name() const { return product_name_; }
  // Returns the GPU's UUID as `nvidia-smi -L` prints it: "GPU-c2e1...".
  const std::string& uuid() const { return uuid_; }
  // Returns the compute capability as an integer: 90 for 9.0.
  int compute_capability() const { return compute_capability_; }
  int num_multiprocessors() const { return num_multiprocessors_; }

 private:
  void WaitAndCheck();

  std::string product_name_;
  std::string uuid_;
  int compute_capability_ = 0;
  int num_multiprocessors_ = 0;
  bool allow_tf32_ = false;
  std::optional<CudaStream> compute_stream_;
  std::optional<PinnedBuffer> wrong_indices_;
};

}  // namespace gradsync::model
