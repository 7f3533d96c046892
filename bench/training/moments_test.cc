#include "bench/training/moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "model/tensor.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using Entry = comm::RecordingProcessGroup::Entry;

// Three parameters of one size, and one of another.
class MomentsTest : public ::testing::Test {
 protected:
  MomentsTest() {
    for (const int64_t numel : {4, 4, 4, 6}) {
      params_.emplace_back("param", model::Tensor::Zeros(model::CpuDevice(), {numel}, model::DType::kF32));
      all_.push_back(&params_.back());
    }
  }

  static Entry AllReduce(int64_t bytes, int64_t issue_ns, int64_t start_ns, int64_t end_ns) {
    return {.sequence = 0,
            .collective = comm::Collective::kAllReduce,
            .bytes = bytes,
            .issue_ns = issue_ns,
            .interval = {start_ns, end_ns}};
  }

  std::deque<model::Parameter> params_;
  std::vector<model::Parameter*> all_;
};

// As `overlap` does: each when it is ready, whatever the plan's order.
TEST_F(MomentsTest, WhatIsSentWhenItIsReadyIsFoundByThat) {
  const ReadyGradient ready[] = {{all_[3], 1010}, {all_[1], 1020}, {all_[2], 1030}, {all_[0], 1050}};
  const Entry barrier{.collective = comm::Collective::kBarrier, .issue_ns = 990};
  const Entry entries[] = {barrier, AllReduce(24, 1011, 1015, 1040), AllReduce(16, 1022, 1041, 1042),
                           AllReduce(16, 1030, 1042, 1043), AllReduce(16, 1055, 1056, 1060)};
  const BucketMoments moments = MomentsOf(ddp::PlanSingles(all_), 1000, ready, entries);
  EXPECT_THAT(moments.ready_ns, ElementsAre(50, 20, 30, 10));
  EXPECT_THAT(moments.issued_ns, ElementsAre(5, 2, 0, 1));
  EXPECT_THAT(moments.started_ns, ElementsAre(1, 19, 12, 4));
  EXPECT_THAT(moments.ended_ns, ElementsAre(4, 1, 1, 25));
}

TEST_F(MomentsTest, GradientsAreReadyInTheModelsOrder) {
  const ReadyGradient ready[] = {{all_[3], 1010}, {all_[1], 1020}, {all_[0], 1050}};
  EXPECT_THAT(ReadyTimes(all_, 1000, ready), ElementsAre(50, 20, -1, 10));
}

// As `core` does: in the plan's order, though the second bucket is ready first.
TEST_F(MomentsTest, BucketsInTheOrderOfThePlanAreReadyWithTheirLastGradient) {
  const ddp::BucketPlan plan =
      ddp::PlanBuckets(all_, {.bytes = 40, .first_bytes = 32, .last_bytes = 40, .alignment_bytes = 1});
  ASSERT_EQ(plan.buckets.size(), 2u);
  const ReadyGradient ready[] = {{all_[3], 1010}, {all_[2], 1012}, {all_[1], 1030}, {all_[0], 1020}};
  const Entry entries[] = {AllReduce(32, 1031, 1032, 1033), AllReduce(40, 1034, 1035, 1045)};
  const BucketMoments moments = MomentsOf(plan, 1000, ready, entries);
  EXPECT_THAT(moments.ready_ns, ElementsAre(30, 12));
  EXPECT_THAT(moments.issued_ns, ElementsAre(1, 22));
  EXPECT_THAT(moments.ended_ns, ElementsAre(1, 10));
}

// As `core` does with an embedding: the bytes of a gathering are those of everyone's rows.
TEST_F(MomentsTest, RowsThatAreGatheredAreABucketToo) {
  ddp::BucketPlan plan = ddp::PlanSingles(std::vector<model::Parameter*>{all_[3], all_[0]});
  plan.buckets[1].messages_bytes = 8;
  plan.buckets[1].collective = comm::Collective::kAllGather;
  const ReadyGradient ready[] = {{all_[3], 1010}, {all_[0], 1020}};
  Entry gather = AllReduce(8, 1021, 1023, 1027);
  gather.collective = comm::Collective::kAllGather;
  const BucketMoments moments =
      MomentsOf(plan, 1000, ready, std::vector<Entry>{AllReduce(24, 1011, 1012, 1013), gather});
  EXPECT_THAT(moments.ready_ns, ElementsAre(10, 20));
  EXPECT_THAT(moments.ended_ns, ElementsAre(1, 4));
  // Where a rank had more, and all sent everything after all, it is not known which of the two took how long.
  const Entry entries[] = {AllReduce(24, 1011, 1012, 1013), gather, AllReduce(16, 1030, 1031, 1032)};
  EXPECT_EQ(MomentsOf(plan, 1000, ready, entries), UnknownMoments(2));
}

TEST_F(MomentsTest, WhatDoesNotFitThePlanIsUnknown) {
  const std::vector<model::Parameter*> two = {all_[0], all_[3]};
  const ddp::BucketPlan plan = ddp::PlanSingles(two);
  const std::vector<ReadyGradient> ready = {{all_[0], 10}, {all_[3], 20}};
  const std::vector<Entry> fitting = {AllReduce(16, 30, 31, 32), AllReduce(24, 33, 34, 35)};
  EXPECT_NE(MomentsOf(plan, 0, ready, fitting), UnknownMoments(2));
  EXPECT_EQ(UnknownMoments(2).ended_ns, (std::vector<int64_t>{-1, -1}));

  std::vector<std::vector<Entry>> others = {
      {fitting[0]},                                         // one was not sent
      {fitting[0], fitting[1], AllReduce(16, 40, 41, 42)},  // one more
      {AllReduce(8, 30, 31, 32), fitting[1]},               // another size
      {AllReduce(16, 5, 31, 32), fitting[1]},               // before it was ready
      {AllReduce(16, 30, 0, 0), fitting[1]},                // no interval
  };
  for (const std::vector<Entry>& entries : others) {
    EXPECT_EQ(MomentsOf(plan, 0, ready, entries), UnknownMoments(2));
  }
  EXPECT_EQ(MomentsOf(plan, 0, std::vector<ReadyGradient>{{all_[0], 10}}, fitting), UnknownMoments(2));
}

}  // namespace
}  // namespace gradsync::bench
