#include "model/tensor/cuda_device.h"

#include <cuda_runtime.h>

#include <atomic>

#include "absl/strings/escaping.h"
#include "model/base/error.h"

namespace gradsync::model {
namespace {

// Allocates memory of the GPU by cudaMalloc. cudaFree waits for the GPU, so all uses of a block are done when
// it is freed.
class CudaMemorySource : public MemorySource {
 public:
  explicit CudaMemorySource(int ordinal) : ordinal_(ordinal) {}

  void* Acquire(size_t bytes) override {
    GRADSYNC_CUDA(cudaSetDevice(ordinal_));
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // this error is handled here
      size_t free_bytes = 0, total_bytes = 0;
      GRADSYNC_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
      throw CudaOutOfMemory(Join("out of memory on cuda:", ordinal_, ": asked for ", bytes >> 20, " MiB (",
                                 bytes, " bytes), held are ", held_bytes_.load() >> 20, " MiB, free are ",
                                 free_bytes >> 20, " of ", total_bytes >> 20));
    }
    GRADSYNC_CUDA(status);
    held_bytes_ += bytes;
    return memory;
  }

  // Called by destructors: another call has reported or will report an error of this call.
  void Release(void* memory, size_t bytes) override {
    cudaSetDevice(ordinal_);
    cudaDeviceSynchronize();  // the GPU may not have reached the block's last use
    cudaFree(memory);
    held_bytes_ -= bytes;
  }

 private:
  const int ordinal_;
  std::atomic<size_t> held_bytes_ = 0;
};

// Returns the ordinal. Throws InvalidInput unless there is a GPU with this ordinal.
int RequireOrdinal(int ordinal) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw InvalidInput(
        Join("CUDA device ", ordinal, ": no GPU that CUDA can use here (", cudaGetErrorString(status), ")"));
  }
  Require(ordinal >= 0 && ordinal < count, "CUDA device ", ordinal, ": this machine has ", count,
          count == 1 ? " GPU" : " GPUs", ", expected 0 to ", count - 1);
  return ordinal;
}

// Returns a version as text: "13.0" for 13000; empty for 0.
std::string VersionName(int version) {
  return version == 0 ? "" : Join(version / 1000, ".", version % 1000 / 10);
}

// Returns the UUID as `nvidia-smi -L` prints it.
std::string UuidName(const cudaUUID_t& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  return Join("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4),
              "-", hex.substr(20));
}

bool IsOnHost(const void* memory) {
  cudaPointerAttributes attributes{};
  GRADSYNC_CUDA(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
}

}  // namespace

void ThrowCudaError(int status, const char* call, const char* file, int line) {
  const auto error = static_cast<cudaError_t>(status);
  static_cast<void>(cudaGetLastError());  // so that a later call does not report it again
  throw CudaError(Join(file, ":", line, ": ", call, " failed: ", cudaGetErrorString(error), " (",
                       cudaGetErrorName(error), ")"));
}

int CudaDeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

size_t CudaMemoryBytes(int ordinal) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess) return properties.totalGlobalMem;
  static_cast<void>(cudaGetLastError());
  return 0;
}

std::string CudaRuntimeVersion() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? VersionName(version) : "";
}

std::string CudaDriverVersion() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? VersionName(version) : "";
}

CudaStream::CudaStream(const CudaDevice& device, Priority priority) {
  device.MakeCurrent();
  int least = 0, greatest = 0;
  GRADSYNC_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t handle = nullptr;
  GRADSYNC_CUDA(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking,
                                             priority == Priority::kHigh ? greatest : least));
  handle_.reset(handle);
}

void CudaStream::Destroy::operator()(cudaStream_t handle) const { cudaStreamDestroy(handle); }

void CudaStream::Wait(const CudaEvent& event) const {
  GRADSYNC_CUDA(cudaStreamWaitEvent(get(), event.get(), 0));
}

void CudaStream::Synchronize() const { GRADSYNC_CUDA(cudaStreamSynchronize(get())); }

void CudaStream::Copy(void* target, const void* source, size_t bytes) const {
  if (bytes == 0) return;
  GRADSYNC_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, get()));
}

CudaEvent::CudaEvent(const CudaDevice& device, Timing timing) {
  device.MakeCurrent();
  cudaEvent_t handle = nullptr;
  GRADSYNC_CUDA(
      cudaEventCreateWithFlags(&handle, timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming));
  handle_.reset(handle);
}

void CudaEvent::Destroy::operator()(cudaEvent_t handle) const { cudaEventDestroy(handle); }

void CudaEvent::Record(const CudaStream& stream) const {
  GRADSYNC_CUDA(cudaEventRecord(get(), stream.get()));
}

bool CudaEvent::done() const {
  const cudaError_t status = cudaEventQuery(get());
  if (status == cudaErrorNotReady) {
    // The result is an answer and not an error, so the next launch must not find it.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  GRADSYNC_CUDA(status);
  return true;
}

void CudaEvent::Synchronize() const { GRADSYNC_CUDA(cudaEventSynchronize(get())); }

double CudaEvent::MillisecondsSince(const CudaEvent& earlier) const {
  float milliseconds = 0;
  GRADSYNC_CUDA(cudaEventElapsedTime(&milliseconds, earlier.get(), get()));
  return double{milliseconds};
}

PinnedBuffer::PinnedBuffer(const CudaDevice& device, size_t bytes) : bytes_(bytes) {
  device.MakeCurrent();
  if (bytes == 0) return;
  // Portable memory: a thread may use any GPU to copy from it.
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw CudaOutOfMemory(Join("no pinned host memory: asked for ", bytes, " bytes"));
  }
  GRADSYNC_CUDA(status);
  data_.reset(data);
}

void PinnedBuffer::Free::operator()(void* data) const { cudaFreeHost(data); }

CudaDevice::CudaDevice(int ordinal)
    : Device(Type::kCuda, RequireOrdinal(ordinal), 1, std::make_unique<CudaMemorySource>(ordinal)) {
  cudaDeviceProp properties{};
  GRADSYNC_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  product_name_ = properties.name;
  uuid_ = UuidName(properties.uuid);
  compute_capability_ = 10 * properties.major + properties.minor;
  num_multiprocessors_ = properties.multiProcessorCount;
  Require(compute_capability_ >= 80, "CUDA device ", ordinal, " (", product_name_,
          ") has compute capability ", properties.major, ".", properties.minor, ", expected at least 8.0");
  compute_stream_.emplace(*this);
  wrong_indices_.emplace(*this, sizeof(WrongIndices));
  wrong_indices() = {};
}

CudaDevice::~CudaDevice() {
  // Resources may own memory that enqueued work uses.
  cudaSetDevice(index());
  cudaStreamSynchronize(compute_stream_->get());
  DropResources();
}

CudaDevice& CudaDevice::Of(Device& device, const char* op) {
  Require(!device.is_cpu(), op, ": expected a CUDA device, got ", device.name());
  return static_cast<CudaDevice&>(device);
}

void CudaDevice::Copy(void* target, const void* source, size_t bytes) {
  if (bytes == 0) return;
  MakeCurrent();
  compute_stream_->Copy(target, source, bytes);
  if (IsOnHost(target) || IsOnHost(source)) WaitAndCheck();
}

void CudaDevice::Zero(void* target, size_t bytes) {
  if (bytes == 0) return;
  MakeCurrent();
  GRADSYNC_CUDA(cudaMemsetAsync(target, 0, bytes, compute_stream_->get()));
}

void CudaDevice::Synchronize() {
  MakeCurrent();
  WaitAndCheck();
}

void CudaDevice::WaitAndCheck() {
  compute_stream_->Synchronize();
  const WrongIndices wrong = std::exchange(wrong_indices(), {});
  Require(wrong.id == 0, "embedding: ids[", wrong.id - 1, "] on ", name(), " is outside of the vocabulary");
  Require(wrong.target == 0, "cross_entropy: targets[", wrong.target - 1, "] on ", name(),
          " is outside of the vocabulary");
}

void CudaDevice::MakeCurrent() const { GRADSYNC_CUDA(cudaSetDevice(index())); }

}  // namespace gradsync::model
