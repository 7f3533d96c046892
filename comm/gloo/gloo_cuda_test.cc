#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "model/base/error.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"

// gloo with tensors of a GPU, which all ranks share.
namespace gradsync::comm {
namespace {

using model::CudaDevice;
using model::DType;
using model::Tensor;

std::vector<model::DevicePtr> Devices(int size) {
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < size; ++rank) devices.push_back(std::make_shared<CudaDevice>(0));
  return devices;
}

// Floats of very different sizes: their sum depends on the order of additions.
std::vector<float> RandomValues(int rank, int64_t numel) {
  std::mt19937 generator(static_cast<uint32_t>(99 + rank));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(numel));
  for (float& value : values) value = normal(generator) * std::exp(4 * normal(generator));
  return values;
}

// Also when pinned memory has to grow, and when there is more of it than the tensor needs.
TEST(GlooCudaTest, GivesTheBitsOfTheCpu) {
  const auto devices = Devices(2);
  const auto groups = MakeGroups("gloo", devices);
  for (const int64_t numel : {1000, 2'000'000, 15'012'345, 100}) {
    const std::vector<float> inputs[] = {RandomValues(0, numel), RandomValues(1, numel)};
    std::vector<float> expected = inputs[0];
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += inputs[1][i];
    RunRanks(2, [&](int rank) {
      const auto index = static_cast<size_t>(rank);
      const Tensor tensor = Tensor::From<float>(devices[index], {numel}, inputs[index]);
      groups[index]->AllReduce(tensor, ReduceOp::kSum).Wait();
      const std::vector<float> result = tensor.ToVector<float>();
      EXPECT_EQ(std::memcmp(result.data(), expected.data(), tensor.nbytes()), 0) << numel;
    });
  }
}

// It reads what the compute stream wrote before, later work of that stream finds its result, and memory that
// is free again is not written to.
TEST(GlooCudaTest, IsOrderedWithTheComputeStream) {
  const auto devices = Devices(2);
  const auto groups = MakeGroups("gloo", devices);
  constexpr int64_t kNumel = 5'000'001;
  RunRanks(2, [&](int rank) {
    const model::DevicePtr& device = devices[static_cast<size_t>(rank)];
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    const Tensor busy = Tensor::Empty(device, {int64_t{1} << 28}, DType::kF32);
    const Tensor seen = Tensor::Empty(device, {kNumel}, DType::kF32);
    for (int i = 0; i < 5; ++i) {
      const Tensor source =
          Tensor::From<float>(device, {kNumel}, std::vector<float>(kNumel, static_cast<float>(i + rank)));
      {
        const Tensor tensor = Tensor::Zeros(device, {kNumel}, DType::kF32);
        for (int j = 0; j < 20; ++j) busy.Zero();
        tensor.CopyFrom(source);
        Work work = group.AllReduce(tensor, ReduceOp::kSum);
        busy.Zero();
        work.Wait();
        seen.CopyFrom(tensor);
      }
      Tensor::Empty(device, {kNumel}, DType::kF32).Zero();  // the same block
      ASSERT_EQ(seen.ToVector<float>(), std::vector<float>(kNumel, static_cast<float>(2 * i + 1)));
    }
  });
}

TEST(GlooCudaTest, IntervalsBeginWhenTheTensorIsComputed) {
  const auto devices = Devices(1);
  const auto groups = MakeGroups("gloo", devices);
  const Tensor busy = Tensor::Empty(devices[0], {int64_t{1} << 30}, DType::kU8);
  const Tensor tensor = Tensor::Zeros(devices[0], {100}, DType::kF32);
  groups[0]->AllReduce(tensor, ReduceOp::kSum).Wait();  // takes pinned memory
  devices[0]->Synchronize();
  const int64_t issue_ns = Now();
  for (int i = 0; i < 200; ++i) busy.Zero();
  Work work = groups[0]->AllReduce(tensor, ReduceOp::kSum);
  work.Wait();
  const Interval interval = work.interval();
  EXPECT_GT(interval.start_ns - issue_ns, interval.end_ns - interval.start_ns);
}

TEST(GlooCudaTest, ARankThatDoesNotComeIsNamed) {
  const auto devices = Devices(2);
  const auto groups = MakeGroups("gloo", devices, std::chrono::seconds(3));
  const Tensor tensor = Tensor::Zeros(devices[0], {5'000'000}, DType::kF32);
  Work work = groups[0]->AllReduce(tensor, ReduceOp::kSum);
  try {
    work.Wait();
    FAIL() << "no exception";
  } catch (const CollectiveError& error) {
    EXPECT_EQ(std::string(error.what()).find("rank 0: all_reduce #0 of 20000000 bytes (gloo) failed after "),
              0u)
        << error.what();
  }
  // The GPU is as good as before.
  EXPECT_EQ(Tensor::Zeros(devices[0], {3}, DType::kF32).ToVector<float>(), std::vector<float>(3, 0.0f));
}

TEST(GlooCudaTest, TensorsHaveToBeOnTheGpu) {
  const auto groups = MakeGroups("gloo", Devices(1));
  const Tensor tensor = Tensor::Zeros(model::CpuDevice(), {1}, DType::kF32);
  EXPECT_THROW(groups[0]->AllReduce(tensor, ReduceOp::kSum), InvalidInput);
}

}  // namespace
}  // namespace gradsync::comm
