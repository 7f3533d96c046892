// What a program says when it asks for a GPU that is not there. Runs on every machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "model/base/test_errors.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::model {
namespace {

TEST(CudaDevice, OneLineForAGpuThatIsNotThere) {
  const int count = CudaDeviceCount();
  ASSERT_GE(count, 0);
  for (const int ordinal : {count, count + 1000, -1}) {
    const std::string refusal = ErrorOf([&] { CudaDevice device(ordinal); });
    EXPECT_THAT(refusal, testing::StartsWith("CUDA device " + std::to_string(ordinal) + ": "));
    EXPECT_THAT(refusal, testing::Not(testing::HasSubstr("\n")));
    EXPECT_THAT(refusal, testing::AnyOf(testing::HasSubstr("CUDA_ARCHITECTURES=90"),
                                        testing::HasSubstr("no GPU that CUDA can use here ("),
                                        testing::HasSubstr("this machine has ")));
  }
}

TEST(CudaDevice, NoMemoryWithoutAGpu) {
  EXPECT_EQ(CudaMemoryBytes(CudaDeviceCount()), 0u);
  EXPECT_EQ(CudaMemoryBytes(-1), 0u);
}

// A GPU with room for one block: the allocator gives back what it keeps, and then passes the message on.
class SmallMemory : public MemorySource {
 public:
  void* Acquire(size_t bytes) override {
    if (is_full_) throw CudaOutOfMemory(Join("asked for ", bytes, " bytes"));
    is_full_ = true;
    return block_;
  }
  void Release(void*, size_t) override { is_full_ = false; }

 private:
  bool is_full_ = false;
  alignas(64) std::byte block_[128];
};

TEST(CudaDevice, TheAllocatorGivesBackWhatItKeepsBeforeItGivesUp) {
  CachingAllocator allocator(std::make_unique<SmallMemory>());
  allocator.Free(allocator.Allocate(64));
  void* const kept = allocator.Allocate(128);
  EXPECT_EQ(ErrorOf<CudaOutOfMemory>([&] { allocator.Allocate(64); }), "asked for 64 bytes");
  allocator.Free(kept);
}

TEST(CudaDevice, OutOfMemoryKeepsItsMessageWhenCopied) {
  const CudaOutOfMemory error("asked for 1 byte");
  EXPECT_EQ(ErrorOf<std::bad_alloc>([&] { throw error; }), "asked for 1 byte");  // throwing copies
}

}  // namespace
}  // namespace gradsync::model
