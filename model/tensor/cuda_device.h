#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/tensor/device.h"

// cudaStream_t and cudaEvent_t are pointers to these structs.
struct CUstream_st;
struct CUevent_st;

// NVIDIA GPUs. In a build without the CUDA toolkit CudaDeviceCount() is 0 and every constructor throws
// InvalidInput, "built without CUDA".
//
// Unless stated otherwise, a call that fails throws CudaError. If enqueued work fails (such as a kernel that
// reads out of bounds), a later call throws the error, and the message names this later call.
namespace gradsync::model {

// A call of the CUDA runtime, or of a library on it, failed. what() is one line with the call, its file and
// line, and the reason.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A GPU has too little memory. what() is one line with the requested bytes, the bytes that the device's
// allocator holds, and the free bytes.
class CudaOutOfMemory : public std::bad_alloc {
 public:
  explicit CudaOutOfMemory(std::string message)
      : message_(std::make_shared<const std::string>(std::move(message))) {}
  const char* what() const noexcept override { return message_->c_str(); }

 private:
  std::shared_ptr<const std::string> message_;  // shared, so that copying cannot throw
};

[[noreturn]] void ThrowCudaError(int status, const char* call, const char* file, int line);

// Runs a call of the CUDA runtime; throws CudaError if it fails. For sources that include cuda_runtime.h.
#define GRADSYNC_CUDA(call)                                                                            \
  do {                                                                                                 \
    if (const auto gradsync_status = (call); gradsync_status != 0) [[unlikely]]                        \
      ::gradsync::model::ThrowCudaError(static_cast<int>(gradsync_status), #call, __FILE__, __LINE__); \
  } while (false)

// Returns the number of GPUs that CUDA can use; 0 if there is no GPU, no driver, or no CUDA in this build.
// Never throws.
int CudaDeviceCount();
// Returns the total memory of a GPU in bytes, without using the GPU; 0 if there is no such GPU. Never throws.
size_t CudaMemoryBytes(int ordinal);
// These functions return the version of this program's runtime, such as "13.0", and the newest version that
// the driver supports; empty without CUDA or driver.
std::string CudaRuntimeVersion();
std::string CudaDriverVersion();

class CudaDevice;
class CudaEvent;

// A queue of work for a GPU, which runs in order. A moved-from stream may only be assigned to and destroyed.
// Destroying a stream does not wait for its work.
class CudaStream {
 public:
  enum class Priority { kNormal, kHigh };

  // Makes a stream in addition to the device's compute stream. If work of two streams waits for processors of
  // the GPU, work of the stream with the higher priority starts first.
  explicit CudaStream(const CudaDevice& device, Priority priority = Priority::kNormal);

  // Makes later work of this stream start after the work before the event. Does not block the host.
  void Wait(const CudaEvent& event) const;
  // Returns when the stream is empty.
  void Synchronize() const;
  // Enqueues a copy between two memories, each of which is this device's memory, pinned host memory or
  // pageable host memory. Source and target must not change until the copy has run. If neither is pageable
  // memory, the host is not blocked.
  void Copy(void* target, const void* source, size_t bytes) const;

  CUstream_st* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(CUstream_st* handle) const;
  };
  std::unique_ptr<CUstream_st, Destroy> handle_;
};

// A point in the work of a stream. Recording the event again moves this point. A moved-from event may only be
// assigned to and destroyed.
class CudaEvent {
 public:
  enum class Timing { kOff, kOn };  // an event without timing is cheaper

  explicit CudaEvent(const CudaDevice& device, Timing timing = Timing::kOff);

  // Marks the end of the work that `stream` has now.
  void Record(const CudaStream& stream) const;
  // Returns whether the work before the event is done. True for an event that was never recorded.
  bool done() const;
  // Returns when the work before the event is done.
  void Synchronize() const;
  // Returns the milliseconds from `earlier` to this event, by the GPU's clock (resolution about half a
  // microsecond). Both events must be made with timing and done.
  double MillisecondsSince(const CudaEvent& earlier) const;

  CUevent_st* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(CUevent_st* handle) const;
  };
  std::unique_ptr<CUevent_st, Destroy> handle_;
};

// Host memory that the GPU reads and writes directly, in kernels and in copies that overlap with computation.
// Allocating and freeing it is slow. Free it only when no copy uses it.
class PinnedBuffer {
 public:
  // Throws CudaOutOfMemory.
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

// A GPU. All kernels, copies and zero-fills of tensors go to its compute stream, in the order of the host's
// calls. The host runs ahead of the GPU. The host waits only in Synchronize and in copies from or to host
// memory, which are complete on return.
//
// Memory. A freed block is reused immediately, although the GPU may not have reached the block's last use,
// because the work of the next user comes later in the compute stream. This holds only for the compute
// stream. To use a tensor on another stream, first make this stream wait for an event of the compute stream.
// Then keep the tensor until the compute stream waits for an event after the use, or until such an event is
// done. When the GPU's memory is full, cached blocks are returned to the driver; if this does not help,
// CudaOutOfMemory is thrown.
//
// A kernel that finds an id or a target outside of the vocabulary writes it to wrong_indices(). The next call
// that waits for the GPU (Synchronize, a copy from or to the host) throws InvalidInput.
//
// The CUDA runtime has a current GPU for each thread. A call of this class, of a stream's or event's
// constructor, or of a kernel makes this GPU the current one of the calling thread and does not restore it.
class CudaDevice : public Device {
 public:
  // Uses the GPU with this ordinal among CUDA_VISIBLE_DEVICES. Throws InvalidInput if there is no such GPU,
  // or if its compute capability is below 8.0.
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;

  // Casts the device. Throws InvalidInput, naming the caller `op`, for another type.
  static CudaDevice& Of(Device& device, const char* op);

  void Copy(void* target, const void* source, size_t bytes) override;
  void Zero(void* target, size_t bytes) override;
  void Synchronize() override;

  // The position, plus one, of an index that is not a row of its table; 0 if there is none. The number is in
  // host memory that kernels can write.
  struct WrongIndices {
    int64_t id, target;
  };
  WrongIndices& wrong_indices() const { return *static_cast<WrongIndices*>(wrong_indices_->data()); }

  const CudaStream& compute_stream() const { return *compute_stream_; }
  // Makes this GPU the current GPU of the calling thread.
  void MakeCurrent() const;

  // Returns whether matrix products of f32 may round their inputs to TF32 (10 bits of mantissa), which makes
  // them several times faster. The default is false.
  bool allow_tf32() const { return allow_tf32_; }
  void set_allow_tf32(bool allow) { allow_tf32_ = allow; }

  // Returns "NVIDIA H200".
  const std::string& product_name() const { return product_name_; }
  // Returns the unique id of the GPU, as `nvidia-smi -L` prints it: "GPU-c2e1...".
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
