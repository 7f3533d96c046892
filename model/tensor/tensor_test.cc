#include "model/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "model/base/test_errors.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

// Of several dtypes; longer than a piece of the sum.
TEST(SquaredNormTest, OfAllTensorsInOneOrder) {
  const auto norm = [](int threads) {
    const DevicePtr device = CpuDevice(threads);
    const Tensor one = Tensor::Empty(device, {3}, DType::kF32),
                 many = Tensor::Empty(device, {200'001}, DType::kF32),
                 half = Tensor::Empty(device, {70'000}, DType::kBF16);
    Fill(one, -2);
    std::vector<float> values(200'001);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / static_cast<float>(i + 1);
    many.CopyFrom(Tensor::From<float>(device, {200'001}, std::span<const float>(values)));
    Fill(half, 0.5);
    const Tensor all[] = {one, Tensor::Empty(device, {0}, DType::kF32), many, half};
    return SquaredNorm(all);
  };
  double expected = 3 * 4 + 70'000 * 0.25;
  for (int i = 1; i <= 200'001; ++i) {
    const double value = 1.0f / static_cast<float>(i);
    expected += value * value;
  }
  EXPECT_NEAR(norm(1), expected, 1e-12 * expected);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(norm(threads), norm(1)) << threads;
  EXPECT_EQ(SquaredNorm(std::span<const Tensor>()), 0);
}

Tensor Iota(const DevicePtr& device, Shape shape) {
  std::vector<float> values(static_cast<size_t>(Numel(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::From<float>(device, std::move(shape), std::span<const float>(values));
}

TEST(TensorTest, ViewsShareStorageAndKeepItAlive) {
  const DevicePtr device = CpuDevice();
  Tensor slice;
  {
    const Tensor tensor = Iota(device, {4, 3});
    slice = tensor.Slice(3, {2, 3});
    EXPECT_FALSE(tensor.unique());
    slice.data<float>()[0] = 100;
    EXPECT_EQ(tensor.data<float>()[3], 100);
  }
  EXPECT_TRUE(slice.unique());
  EXPECT_EQ(slice.ToVector<float>(), (std::vector<float>{100, 4, 5, 6, 7, 8}));
  EXPECT_EQ(slice.View({6}).dim(-1), 6);
}

TEST(TensorTest, KeepsBorrowedMemoryAlive) {
  const DevicePtr device = CpuDevice();
  auto memory = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> lender = memory;
  Tensor tensor = Tensor::Over(device, std::shared_ptr<void>(memory, memory->data()), {3}, DType::kF32);
  memory.reset();
  Tensor view = tensor.Slice(1, {2});
  tensor = Tensor();
  EXPECT_EQ(view.ToVector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(device->allocator().stats().source_allocations, 0);
  view = Tensor();
  EXPECT_TRUE(lender.expired());
}

TEST(TensorTest, ByteSlicesReinterpret) {
  const Tensor bytes = Tensor::Zeros(CpuDevice(), {32}, DType::kU8);
  const Tensor floats = bytes.SliceBytes(8, {2, 3}, DType::kF32);
  floats.data<float>()[5] = 1.0f;
  EXPECT_EQ(bytes.data<uint8_t>()[31], 0x3f);
  EXPECT_THROW(bytes.SliceBytes(12, {2, 3}, DType::kF32), InvalidInput);
  EXPECT_THROW(bytes.SliceBytes(2, {1}, DType::kF32), InvalidInput);
}

TEST(TensorTest, BoundsAndTypesAreChecked) {
  const Tensor tensor = Iota(CpuDevice(), {4, 3});
  EXPECT_THROW(tensor.Slice(7, {2, 3}), InvalidInput);
  EXPECT_THROW(tensor.Slice(-1, {1}), InvalidInput);
  EXPECT_THROW(tensor.Slice(std::numeric_limits<int64_t>::max(), {1}), InvalidInput);
  EXPECT_THROW(tensor.View({5}), InvalidInput);
  EXPECT_THROW(tensor.dim(2), InvalidInput);
  EXPECT_THROW(tensor.data<double>(), InvalidInput);
  EXPECT_THROW(Tensor::Empty(CpuDevice(), {-1}, DType::kF32), InvalidInput);
  EXPECT_THROW(Tensor::Empty(CpuDevice(), {int64_t{1} << 40, int64_t{1} << 40}, DType::kF32), InvalidInput);
  // Elements that can be counted, in bytes that cannot.
  const int64_t many = int64_t{1} << 61;
  EXPECT_THROW(Tensor::Empty(CpuDevice(), {many}, DType::kF64), InvalidInput);
  EXPECT_THROW(Tensor::Empty(CpuDevice(), {many + 1}, DType::kF64), InvalidInput);
  EXPECT_THROW(Tensor::Zeros(CpuDevice(), {2, many}, DType::kBF16), InvalidInput);
  EXPECT_THROW(Tensor::From<double>(CpuDevice(), {many}, std::span<const double>()), InvalidInput);
  EXPECT_THROW(Tensor::Over(CpuDevice(), std::make_shared<double>(), {many}, DType::kF64), InvalidInput);
  EXPECT_THROW(tensor.SliceBytes(0, {many}, DType::kF64), InvalidInput);
  EXPECT_THROW(AddTo(tensor, tensor.View({12})), InvalidInput);
  EXPECT_THROW(CpuDevice(0), InvalidInput);
}

TEST(TensorTest, ArithmeticAcrossThreads) {
  const DevicePtr device = CpuDevice(3);
  const Tensor x = Iota(device, {10007});
  const Tensor y = x.Clone();
  AddTo(x, y);
  Scale(y, 0.5);
  EXPECT_EQ(x.ToVector<float>(), y.ToVector<float>());
  const Tensor empty = Tensor::Empty(device, {0}, DType::kF32);
  AddTo(empty, empty);
}

TEST(TensorTest, BF16RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(BF16(1.0f)), 1.0f);
  EXPECT_EQ(static_cast<float>(BF16(1.0f + 1.0f / 256)), 1.0f);               // a tie, down to even
  EXPECT_EQ(static_cast<float>(BF16(1.0f + 3.0f / 256)), 1.0f + 4.0f / 256);  // a tie, up to even
  EXPECT_TRUE(std::isnan(static_cast<float>(BF16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BF16(std::numeric_limits<float>::max()))));
}

// The same through the kernels that vectorise it, with every kind of number.
TEST(TensorTest, RoundIsTheConversionOfEachElement) {
  const DevicePtr device = CpuDevice(2);
  std::vector<float> values;
  for (uint32_t i = 0; i < 20'011; ++i) values.push_back(std::bit_cast<float>(i * 214'589u));
  const Tensor f32 = Tensor::From<float>(device, {20'011}, std::span<const float>(values));
  const Tensor bf16 = Tensor::Empty(device, {20'011}, DType::kBF16);
  Cast(f32, bf16);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(bf16.data<BF16>()[i].bits, BF16(values[i]).bits) << values[i];
  }
  Cast(bf16, f32);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto wide = static_cast<float>(BF16(values[i]));
    ASSERT_EQ(std::bit_cast<uint32_t>(f32.data<float>()[i]), std::bit_cast<uint32_t>(wide)) << values[i];
  }
  EXPECT_THROW(Cast(f32, f32), InvalidInput);
  EXPECT_THROW(Cast(f32, Tensor::Empty(device, {20'010}, DType::kBF16)), InvalidInput);
}

TEST(TensorTest, ArithmeticOnBF16IsRoundedOnce) {
  const DevicePtr device = CpuDevice();
  const Tensor x = Tensor::Empty(device, {3}, DType::kBF16);
  Fill(x, 1);
  EXPECT_EQ(static_cast<float>(x.data<BF16>()[2]), 1.0f);
  Scale(x, 1 + 0x1p-7);
  AddTo(x, x);
  EXPECT_EQ(static_cast<float>(x.data<BF16>()[2]), 2 + 0x1p-6f);
}

TEST(TensorTest, FindsWhatIsNotFinite) {
  const DevicePtr device = CpuDevice();
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const Tensor x = Tensor::Zeros(device, {2, 3}, dtype);
    Fill(x, 3e38);
    EXPECT_EQ(FindNotFinite(x), std::nullopt) << Name(dtype);
    for (const double bad : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
      Fill(x.Slice(4, {2}), bad);
      EXPECT_EQ(FindNotFinite(x), 4) << Name(dtype);
    }
  }
  EXPECT_EQ(FindNotFinite(Tensor::Empty(device, {0}, DType::kF32)), std::nullopt);
  EXPECT_THROW(FindNotFinite(Tensor::Empty(device, {1}, DType::kI32)), InvalidInput);
}

TEST(AllocatorTest, ARepeatedPatternAsksTheSourceForNothing) {
  const DevicePtr device = CpuDevice();
  auto step = [&] {
    std::vector<Tensor> kept;
    for (int64_t numel : {0, 1, 1000, 1 << 20, 3 << 20}) {
      kept.push_back(Tensor::Empty(device, {numel}, DType::kF32));
      Tensor::Empty(device, {numel + 5}, DType::kF32);
    }
  };
  step();
  const CachingAllocator::Stats first = device->allocator().stats();
  EXPECT_EQ(first.bytes_in_use, 0u);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(device->allocator().stats().source_allocations, first.source_allocations);
  device->allocator().Trim();
  EXPECT_EQ(device->allocator().stats().bytes_held, 0u);
}

TEST(AllocatorTest, SaysWhatThereWasNoMemoryFor) {
  EXPECT_EQ(ErrorOf<std::bad_alloc>([] { Tensor::Empty(CpuDevice(), {int64_t{1} << 50}, DType::kU8); }),
            "out of memory on cpu: asked for 1125899906842624 bytes");
}

TEST(AllocatorTest, NoSizeIsTooLargeToBeRefused) {
  CachingAllocator allocator(HostMemory());
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX / 2 + 1, SIZE_MAX / 2}) {
    EXPECT_THROW(allocator.Allocate(bytes), std::bad_alloc) << bytes;
  }
  EXPECT_EQ(allocator.stats().bytes_held, 0u);
}

TEST(AllocatorTest, BlocksAreAlignedAndDistinct) {
  CachingAllocator allocator(HostMemory());
  std::vector<void*> blocks;
  for (size_t bytes = 0; bytes < 4096; bytes += 37) blocks.push_back(allocator.Allocate(bytes));
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i]) % 64, 0u);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(blocks[i], blocks[j]);
  }
  for (void* block : blocks) allocator.Free(block);
}

}  // namespace
}  // namespace gradsync::model
