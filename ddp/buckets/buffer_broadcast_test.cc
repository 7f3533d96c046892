#include "ddp/buckets/buffer_broadcast.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/queue/recording_process_group.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::ddp {
namespace {

using model::DType;
using model::Tensor;

TEST(BufferBroadcastTest, EveryRankHasRankZerosBuffersAfterOneCollective) {
  auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    comm::RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    const model::DevicePtr device = model::CpuDevice();
    const auto own = static_cast<float>(10 * rank);
    const Tensor mean = Tensor::From<float>(device, {3}, std::vector<float>{own, own + 1, own + 2});
    const Tensor count = Tensor::From<int64_t>(device, {}, std::vector<int64_t>{int64_t{1} << (40 + rank)});
    const BufferBroadcast broadcast({mean, count, Tensor::Zeros(device, {0}, DType::kF32)});
    broadcast.Run(group);
    EXPECT_EQ(mean.ToVector<float>(), (std::vector<float>{0, 1, 2}));
    EXPECT_EQ(count.ToVector<int64_t>(), std::vector<int64_t>{int64_t{1} << 40});
    EXPECT_EQ(group.entries().size(), 1u);
  });
}

TEST(BufferBroadcastTest, WithoutBuffersNothingIsSent) {
  comm::RecordingProcessGroup group(std::move(comm::MakeLocalGroups(1).front()));
  BufferBroadcast({}).Run(group);
  EXPECT_TRUE(group.entries().empty());
}

}  // namespace
}  // namespace gradsync::ddp
