#include "bench/training/batch_feeder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/unreachable_device.h"
#include "bench/training/image_source.h"
#include "bench/training/token_source.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Shape;
using model::Tensor;

using MakeSource = std::function<std::unique_ptr<BatchSource>()>;

Batch BatchOn(const model::DevicePtr& device, const Shape& inputs, const Shape& targets, DType dtype) {
  return {Tensor::Zeros(device, inputs, dtype), Tensor::Zeros(device, targets, dtype)};
}

// A batch in memory that the host cannot touch gets what one on the host gets, of every rank and step.
template <class T>
void ExpectTheSameOnAnyDevice(const MakeSource& make, const Shape& inputs, const Shape& targets) {
  const Batch host = BatchOn(model::CpuDevice(), inputs, targets, model::kDTypeOf<T>);
  const Batch there = BatchOn(UnreachableDevice(), inputs, targets, model::kDTypeOf<T>);
  const auto source = make();
  BatchFeeder feeder(make());
  for (const auto& [rank, step] : {std::pair{0, 0}, std::pair{1, 0}, std::pair{1, 7}}) {
    source->Fill(rank, step, host.inputs, host.targets);
    feeder.Fill(rank, step, there);
    EXPECT_EQ(there.inputs.ToVector<T>(), host.inputs.ToVector<T>());
    EXPECT_EQ(there.targets.ToVector<T>(), host.targets.ToVector<T>());
    EXPECT_NE(there.targets.ToVector<T>(), std::vector<T>(static_cast<size_t>(there.targets.numel()), T{}));
  }
}

TEST(BatchFeederTest, UniformTokens) {
  ExpectTheSameOnAnyDevice<int32_t>([] { return UniformTokens(100, 3); }, {2, 5}, {2, 5});
}

TEST(BatchFeederTest, UniformImages) {
  ExpectTheSameOnAnyDevice<float>([] { return UniformImages(3); }, {2, 3, 4, 4}, {2, 10});
}

TEST(BatchFeederTest, Corpus) {
  const std::string path = testing::TempDir() + "/corpus.txt";
  std::ofstream(path) << "a quick brown fox and what it jumps over";
  ExpectTheSameOnAnyDevice<int32_t>([&] { return CorpusTokens(path, 256, 8, 0); }, {2, 8}, {2, 8});
}

TEST(BatchFeederTest, BatchFile) {
  const std::string path = testing::TempDir() + "/batch.safetensors";
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor rows = Tensor::From<int32_t>(model::CpuDevice(), {4, 2}, ids);
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"inputs", rows}, {"targets", rows}};
  model::WriteSafetensors(path, tensors);
  ExpectTheSameOnAnyDevice<int32_t>([&] { return BatchFileTokens(path, 10, 2); }, {2, 2}, {2, 2});
}

TEST(BatchFeederTest, ASteadyStepAllocatesNothing) {
  const auto device = UnreachableDevice();
  const Batch batch = BatchOn(device, {2, 5}, {2, 5}, DType::kI32);
  BatchFeeder feeder(UniformTokens(100, 3));
  const auto before = device->allocator().stats().source_allocations;
  for (int64_t step = 0; step < 3; ++step) feeder.Fill(0, step, batch);
  EXPECT_EQ(device->allocator().stats().source_allocations, before);
}

// The host must not be able to read what the tests above say it did not read.
TEST(UnreachableDeviceTest, MemoryCannotBeTouched) {
  const Tensor tensor = Tensor::Zeros(UnreachableDevice(), {4}, DType::kF32);
  EXPECT_DEATH(static_cast<volatile float*>(tensor.raw_data())[0] = 1, "");
  EXPECT_EQ(tensor.ToVector<float>(), std::vector<float>(4, 0));
}

}  // namespace
}  // namespace gradsync::bench
