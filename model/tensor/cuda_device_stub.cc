// For a build without CUDA. No CudaDevice can be made, so only its constructor is ever called.

#include "model/base/error.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::model {
namespace {

constexpr char kHow[] =
    "this program was built without CUDA: build it with CUDA 12 or newer in /usr/local/cuda or CUDA_HOME, "
    "and "
    "with a GPU in the machine or CUDA_ARCHITECTURES=90 in the environment";

[[noreturn]] void Refuse() { throw InvalidInput(kHow); }

int RefuseOrdinal(int ordinal) { throw InvalidInput(Join("CUDA device ", ordinal, ": ", kHow)); }

}  // namespace

void ThrowCudaError(int, const char*, const char*, int) { Refuse(); }
int CudaDeviceCount() { return 0; }
size_t CudaMemoryBytes(int) { return 0; }
std::string CudaRuntimeVersion() { return ""; }
std::string CudaDriverVersion() { return ""; }

CudaStream::CudaStream(const CudaDevice&, Priority) { Refuse(); }
void CudaStream::Destroy::operator()(CUstream_st*) const {}
void CudaStream::Wait(const CudaEvent&) const { Refuse(); }
void CudaStream::Synchronize() const { Refuse(); }
void CudaStream::Copy(void*, const void*, size_t) const { Refuse(); }

CudaEvent::CudaEvent(const CudaDevice&, Timing) { Refuse(); }
void CudaEvent::Destroy::operator()(CUevent_st*) const {}
void CudaEvent::Record(const CudaStream&) const { Refuse(); }
bool CudaEvent::done() const { Refuse(); }
void CudaEvent::Synchronize() const { Refuse(); }
double CudaEvent::MillisecondsSince(const CudaEvent&) const { Refuse(); }

PinnedBuffer::PinnedBuffer(const CudaDevice&, size_t) { Refuse(); }
void PinnedBuffer::Free::operator()(void*) const {}

CudaDevice::CudaDevice(int ordinal) : Device(Type::kCuda, RefuseOrdinal(ordinal), 1, HostMemory()) {}
CudaDevice::~CudaDevice() = default;
CudaDevice& CudaDevice::Of(Device&, const char*) { Refuse(); }
void CudaDevice::Copy(void*, const void*, size_t) { Refuse(); }
void CudaDevice::Zero(void*, size_t) { Refuse(); }
void CudaDevice::Synchronize() { Refuse(); }
void CudaDevice::MakeCurrent() const { Refuse(); }

}  // namespace gradsync::model
