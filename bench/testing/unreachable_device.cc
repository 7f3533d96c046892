#include "bench/testing/unreachable_device.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <string_view>

#include "model/tensor/tensor.h"

namespace gradsync::bench {
namespace {

// Allocates whole pages that cannot be accessed.
class ForbiddenMemory : public model::MemorySource {
 public:
  void* Acquire(size_t bytes) override {
    void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    bytes_of_.emplace(static_cast<std::byte*>(memory), bytes);
    return memory;
  }
  void Release(void* memory, size_t bytes) override {
    munmap(memory, bytes);
    bytes_of_.erase(static_cast<std::byte*>(memory));
  }

  // Changes the access rights of the block that contains an address, if there is one.
  void Protect(const void* address, int rights) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    auto block = bytes_of_.upper_bound(const_cast<std::byte*>(byte));
    if (block == bytes_of_.begin()) return;
    --block;
    if (byte < block->first + block->second) mprotect(block->first, block->second, rights);
  }

 private:
  std::map<std::byte*, size_t> bytes_of_;  // bytes of blocks by their beginnings
};

class UnreachableDeviceImpl : public model::Device {
 public:
  UnreachableDeviceImpl() : UnreachableDeviceImpl(new ForbiddenMemory) {}

  void Copy(void* target, const void* source, size_t bytes) override {
    if (bytes == 0) return;
    memory_.Protect(target, PROT_READ | PROT_WRITE);
    memory_.Protect(source, PROT_READ | PROT_WRITE);
    std::memcpy(target, source, bytes);
    memory_.Protect(target, PROT_NONE);
    memory_.Protect(source, PROT_NONE);
  }
  void Zero(void* target, size_t bytes) override {
    if (bytes == 0) return;
    memory_.Protect(target, PROT_READ | PROT_WRITE);
    std::memset(target, 0, bytes);
    memory_.Protect(target, PROT_NONE);
  }
  void Synchronize() override {}

 private:
  explicit UnreachableDeviceImpl(ForbiddenMemory* memory)
      : Device(Type::kCuda, 0, 1, std::unique_ptr<model::MemorySource>(memory)), memory_(*memory) {}

  const ForbiddenMemory& memory_;  // the allocator's
};

class LoneGroupImpl : public comm::ProcessGroup {
 public:
  LoneGroupImpl() : ProcessGroup(0, 1, UnreachableDevice()->name()) {}
  std::string_view backend() const override { return "none"; }
  comm::Work Issue(comm::Request request) override {
    if (request.output.defined()) request.output.CopyFrom(request.input);
    return {};
  }
};

}  // namespace

model::DevicePtr UnreachableDevice() { return std::make_shared<UnreachableDeviceImpl>(); }

std::unique_ptr<comm::ProcessGroup> LoneGroup() { return std::make_unique<LoneGroupImpl>(); }

}  // namespace gradsync::bench
