#include "model/tensor/device.h"

#include <xmmintrin.h>

#include <cstring>
#include <utility>

#include "model/base/error.h"

namespace gradsync::model {
namespace {

class CpuDeviceImpl : public Device {
 public:
  explicit CpuDeviceImpl(int num_threads) : Device(Type::kCpu, 0, num_threads, HostMemory()) {}

  void Copy(void* target, const void* source, size_t bytes) override {
    if (bytes > 0) std::memcpy(target, source, bytes);
  }
  void Zero(void* target, size_t bytes) override {
    if (bytes > 0) std::memset(target, 0, bytes);
  }
  void Synchronize() override {}
};

}  // namespace

Device::Device(Type type, int index, int num_threads, std::unique_ptr<MemorySource> memory)
    : type_(type), index_(index), num_threads_(num_threads), allocator_(std::move(memory)) {}

std::string Device::name() const { return is_cpu() ? "cpu" : Join("cuda:", index_); }

DevicePtr CpuDevice(int num_threads) {
  Require(num_threads >= 1, "CPU device: ", num_threads, " threads, expected at least 1");
  return std::make_shared<CpuDeviceImpl>(num_threads);
}

// "Flush to zero" of results and "denormals are zeros" of operands.
void FlushDenormals() { _mm_setcsr(_mm_getcsr() | 0x8040); }

}  // namespace gradsync::model
