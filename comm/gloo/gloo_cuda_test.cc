#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "model/base/test_errors.h"
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
  const std::string error = ErrorOf<CollectiveError>([&] { work.Wait(); });
  EXPECT_TRUE(error.starts_with("rank 0: all_reduce #0 of 20000000 bytes (gloo) failed after ")) << error;
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
