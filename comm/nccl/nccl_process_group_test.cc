#include "comm/nccl/nccl_process_group.h"

#include <gtest/gtest.h>

#include <regex>
#include <vector>

#include "model/base/test_errors.h"
#include "model/tensor/cuda_clock.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"

// The order between the streams, in a world of one: an all-gather out of place is then a copy on the
// communication stream, of a tensor large enough that the host is far ahead of it.
namespace gradsync::comm {
namespace {

using model::CudaDevice;
using model::CudaEvent;
using model::DType;
using model::Tensor;

// The number of f32 in a 128th of the GPU's memory, which takes some hundred microseconds to copy.
int64_t LargeNumel() { return static_cast<int64_t>(model::CudaMemoryBytes(0) / 128 / sizeof(float)); }

class NcclProcessGroupTest : public testing::Test {
 protected:
  Tensor Constant(float value) const {
    return Tensor::From<float>(device_, {numel_}, std::vector<float>(static_cast<size_t>(numel_), value));
  }
  Tensor Empty() const { return Tensor::Empty(device_, {numel_}, DType::kF32); }
  // Work for the compute stream.
  void Compute(int repeats) const {
    for (int i = 0; i < repeats; ++i) busy_.Zero();
  }
  CudaEvent Mark() const {
    CudaEvent event(*device_, CudaEvent::Timing::kOn);
    event.Record(device_->compute_stream());
    return event;
  }

  const int64_t numel_ = LargeNumel();
  const std::shared_ptr<CudaDevice> device_ = std::make_shared<CudaDevice>(0);
  const Tensor busy_ = Empty();
  const std::unique_ptr<ProcessGroup> group_ = MakeNcclGroup({.world = {}}, device_, nullptr);
};

TEST_F(NcclProcessGroupTest, KnowsItsVersion) {
  EXPECT_TRUE(std::regex_match(NcclVersion(), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+"))) << NcclVersion();
  const GroupFacts facts = group_->facts();
  EXPECT_EQ(facts.channels, 1);
  EXPECT_GT(facts.limit_per_second, 100e9);
  ASSERT_EQ(facts.more.size(), 1u);
  EXPECT_TRUE(std::regex_match(facts.more[0].second, std::regex(".+:[0-9]+")));
}

// It reads what the compute stream wrote before, and later work of that stream finds its result.
TEST_F(NcclProcessGroupTest, IsOrderedWithTheComputeStream) {
  const Tensor values[] = {Constant(1), Constant(2)};
  const Tensor input = Empty(), output = Empty(), seen = Empty();
  for (int i = 0; i < 10; ++i) {
    output.Zero();
    Compute(10);
    input.CopyFrom(values[i % 2]);
    Work work = group_->AllGather(input, output);
    work.Wait();
    seen.CopyFrom(output);
    input.Zero();  // must not overtake the collective
    const std::vector<float> result = seen.ToVector<float>();
    ASSERT_EQ(result.front(), i % 2 + 1) << i;
    ASSERT_EQ(result.back(), i % 2 + 1) << i;
  }
}

TEST_F(NcclProcessGroupTest, WaitDoesNotBlockTheHost) {
  const Tensor input = Constant(1), output = Empty();
  group_->AllGather(input, output).Wait();  // whatever is done once
  group_->Barrier();
  Compute(200);
  group_->AllGather(input, output).Wait();
  const CudaEvent after = Mark();
  EXPECT_FALSE(after.done());
  after.Synchronize();
}

// What strategies rely on to hide communication: the collective and what is computed after its issue are in
// progress at the same time, and what is computed after Wait comes after both.
TEST_F(NcclProcessGroupTest, OverlapsWithComputation) {
  const Tensor input = Constant(1), output = Empty();
  group_->AllGather(input, output).Wait();
  group_->Barrier();
  const auto anchor = device_->Resource<model::CudaClock>().anchor();
  const CudaEvent issued = Mark();
  Work work = group_->AllGather(input, output);
  Compute(200);
  const CudaEvent computed = Mark();
  work.Wait();
  const CudaEvent waited = Mark();
  waited.Synchronize();
  const Interval interval = work.interval();
  constexpr int64_t kResolutionNs = 2000;
  EXPECT_GE(interval.start_ns, anchor->TimeOf(issued) - kResolutionNs);
  EXPECT_LT(interval.start_ns, anchor->TimeOf(computed));
  EXPECT_LT(interval.end_ns, anchor->TimeOf(computed)) << "did not run beside 200 times as much work";
  EXPECT_GE(anchor->TimeOf(waited), interval.end_ns - kResolutionNs);
}

// The allocator hands a freed block out at once, to work that is only ordered with the compute stream.
TEST_F(NcclProcessGroupTest, KeepsItsTensorsUntilTheGpuIsDoneWithThem) {
  const Tensor ones = Constant(1);
  const Tensor output = Empty();
  for (int i = 0; i < 10; ++i) {
    Tensor input = ones.Clone();
    Work work = group_->AllGather(input, output);
    const void* const address = input.raw_data();
    input = Tensor();
    const Tensor other = Empty();  // before Wait
    EXPECT_NE(other.raw_data(), address);
    other.Zero();
    work.Wait();
    const Tensor reused = Empty();  // after it: may be that block, because zeroing it comes later
    reused.Zero();
    const std::vector<float> result = output.ToVector<float>();
    ASSERT_EQ(result.front(), 1.0f) << i;
    ASSERT_EQ(result.back(), 1.0f) << i;
  }
}

TEST_F(NcclProcessGroupTest, HandlesOutliveTheGroup) {
  Work done, dropped;
  {
    const std::unique_ptr<ProcessGroup> group = MakeNcclGroup({.world = {}}, device_, nullptr);
    const Tensor tensor = Tensor::Zeros(device_, {10}, DType::kF32);
    done = group->AllReduce(tensor, ReduceOp::kSum);
    group->Barrier();
    Compute(200);
    dropped = group->AllReduce(tensor, ReduceOp::kSum);
  }
  done.Wait();
  EXPECT_LE(done.interval().start_ns, done.interval().end_ns);
  const std::string error = ErrorOf<CollectiveError>([&] { dropped.Wait(); });
  EXPECT_TRUE(error.starts_with("rank 0: all_reduce #2 of 40 bytes (nccl) failed after ")) << error;
  EXPECT_TRUE(error.ends_with("the group was destroyed before it finished")) << error;
}

TEST_F(NcclProcessGroupTest, TensorsHaveToBeOnItsGpu) {
  const Tensor tensor = Tensor::Zeros(model::CpuDevice(), {1}, DType::kF32);
  EXPECT_EQ(ErrorOf([&] { group_->AllReduce(tensor, ReduceOp::kSum); }),
            "all_reduce: tensor is on cpu, expected cuda:0");
}

}  // namespace
}  // namespace gradsync::comm
