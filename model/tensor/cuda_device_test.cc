#include "model/tensor/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "model/base/test_errors.h"
#include "model/tensor/tensor.h"

namespace gradsync::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<float> Numbers(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

class CudaDeviceTest : public testing::Test {
 protected:
  const std::shared_ptr<CudaDevice> device_ = std::make_shared<CudaDevice>(0);
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->name(), "cuda:0");
  EXPECT_FALSE(device_->is_cpu());
  EXPECT_FALSE(device_->product_name().empty());
  EXPECT_THAT(device_->uuid(),
              testing::MatchesRegex("GPU-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+"));
  EXPECT_GT(CudaMemoryBytes(0), 0u);
  EXPECT_GE(device_->compute_capability(), 80);
  EXPECT_GE(device_->num_multiprocessors(), 1);
  EXPECT_FALSE(device_->allow_tf32());
  EXPECT_EQ(&CudaDevice::Of(*device_, "test"), device_.get());
  EXPECT_THROW(CudaDevice::Of(*CpuDevice(), "test"), InvalidInput);
}

TEST_F(CudaDeviceTest, TensorsTravelThereAndBack) {
  for (const int64_t n : {0, 1, 1'000'003}) {
    const std::vector<float> values = Numbers(n);
    const Tensor there = Tensor::From<float>(device_, {n}, std::span<const float>(values));
    EXPECT_EQ(there.ToVector<float>(), values);
    EXPECT_EQ(there.Clone().ToVector<float>(), values);
    EXPECT_EQ(there.To(CpuDevice()).ToVector<float>(), values);
    there.Zero();
    EXPECT_EQ(there.ToVector<float>(), std::vector<float>(static_cast<size_t>(n), 0.0f));
  }
}

// The source of a copy may change as soon as the call has returned.
TEST_F(CudaDeviceTest, CopiesFromTheHostAreCompleteOnReturn) {
  PinnedBuffer pinned(*device_, 1 << 24);
  std::memset(pinned.data(), 1, pinned.bytes());
  const Tensor there = Tensor::Empty(device_, {1 << 24}, DType::kU8);
  device_->Copy(there.raw_data(), pinned.data(), pinned.bytes());
  std::memset(pinned.data(), 2, pinned.bytes());
  EXPECT_EQ(there.ToVector<uint8_t>(), std::vector<uint8_t>(1 << 24, 1));
}

TEST_F(CudaDeviceTest, FreedMemoryIsHandedOutAgain) {
  CachingAllocator& allocator = device_->allocator();
  void* const first = allocator.Allocate(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  allocator.Free(first);
  const int64_t before = allocator.stats().source_allocations;
  EXPECT_EQ(allocator.Allocate(1 << 20), first);
  EXPECT_EQ(allocator.stats().source_allocations, before);
  allocator.Free(first);
  allocator.Trim();
  EXPECT_EQ(allocator.stats().bytes_held, 0u);
}

TEST_F(CudaDeviceTest, OutOfMemorySaysHowMuch) {
  const Tensor held = Tensor::Empty(device_, {1 << 20}, DType::kU8);
  EXPECT_THAT(ErrorOf<CudaOutOfMemory>([&] { device_->allocator().Allocate(size_t{1} << 50); }),
              AllOf(HasSubstr("out of memory on cuda:0: asked for 1073741824 MiB (1125899906842624 bytes)"),
                    HasSubstr("held are 1 MiB, free are ")));
  // The device works as before.
  EXPECT_EQ(Tensor::Zeros(device_, {3}, DType::kF32).ToVector<float>(), std::vector<float>(3, 0.0f));
}

// A stream that waits for an event sees what was done before it, and the compute stream likewise.
TEST_F(CudaDeviceTest, EventsOrderStreams) {
  constexpr int64_t kNumel = 1 << 22;
  const CudaStream side(*device_, CudaStream::Priority::kHigh);
  const CudaEvent computed(*device_), copied(*device_);
  const Tensor source = Tensor::From<float>(device_, {kNumel}, std::span<const float>(Numbers(kNumel)));
  const Tensor middle = Tensor::Empty(device_, {kNumel}, DType::kF32);
  const Tensor target = Tensor::Empty(device_, {kNumel}, DType::kF32);
  for (int i = 0; i < 20; ++i) {
    middle.Zero();
    target.Zero();
    middle.CopyFrom(source);
    computed.Record(device_->compute_stream());
    side.Wait(computed);
    side.Copy(target.raw_data(), middle.raw_data(), middle.nbytes());
    copied.Record(side);
    device_->compute_stream().Wait(copied);
    middle.Zero();
    ASSERT_EQ(target.ToVector<float>(), Numbers(kNumel)) << i;
  }
  copied.Synchronize();
  EXPECT_TRUE(copied.done());
}

TEST_F(CudaDeviceTest, EventsMeasureTime) {
  const CudaEvent begin(*device_, CudaEvent::Timing::kOn), end(*device_, CudaEvent::Timing::kOn);
  EXPECT_TRUE(begin.done());  // never recorded
  const Tensor large = Tensor::Empty(device_, {1 << 28}, DType::kU8);
  begin.Record(device_->compute_stream());
  large.Zero();
  end.Record(device_->compute_stream());
  end.Synchronize();
  EXPECT_TRUE(begin.done() && end.done());
  EXPECT_GT(end.MillisecondsSince(begin), 0);
}

TEST_F(CudaDeviceTest, ValuesMove) {
  CudaStream a(*device_), b(*device_);
  CUstream_st* const handle = a.get();
  b = std::move(a);
  EXPECT_EQ(b.get(), handle);
  const CudaStream c(std::move(b));
  EXPECT_EQ(c.get(), handle);
  c.Synchronize();
  PinnedBuffer buffer(*device_, 100);
  void* const data = buffer.data();
  const PinnedBuffer moved(std::move(buffer));
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.bytes(), 100u);
}

TEST_F(CudaDeviceTest, ErrorsNameTheCall) {
  const CudaEvent begin(*device_), end(*device_);  // without timing
  EXPECT_THAT(
      ErrorOf<CudaError>([&] { end.MillisecondsSince(begin); }),
      AllOf(HasSubstr("model/tensor/cuda_device.cc:"), HasSubstr(" failed: "), HasSubstr("(cudaError")));
}

}  // namespace
}  // namespace gradsync::model
