#include "tools/predict/link_costs.h"

#include <gtest/gtest.h>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using enum CollectiveKind;

LinkCosts Costs() {
  return LinkCosts({{kAllReduce, 1, 100, 10, 0.4},
                    {kAllReduce, 1, 200, 20, 0.6},
                    {kAllReduce, 2, 100, 16, 0.8},
                    {kAllReduce, 4, 100, 50, 1.0},
                    {kAllGather, 1, 100, 4, 0.1}});
}

TEST(LinkCostsTest, InterpolatesSecondsAndProcessorBySize) {
  EXPECT_DOUBLE_EQ(Costs().Seconds(kAllReduce, 150), 15);
  EXPECT_DOUBLE_EQ(Costs().Processor(kAllReduce, 150, 1), 0.5);
}

TEST(LinkCostsTest, UsesTheMostThatWereMeasuredTogether) {
  EXPECT_DOUBLE_EQ(Costs().Processor(kAllReduce, 100, 2), 0.8);
  EXPECT_DOUBLE_EQ(Costs().Processor(kAllReduce, 100, 3), 0.8);
  EXPECT_DOUBLE_EQ(Costs().Processor(kAllReduce, 100, 9), 1.0);
}

TEST(LinkCostsTest, GainIsWhatManyTogetherSave) {
  EXPECT_DOUBLE_EQ(Costs().Gain(kAllReduce, 100, 1), 1);
  EXPECT_DOUBLE_EQ(Costs().Gain(kAllReduce, 100, 2), 1.25);  // 2 x 10 in 16
  EXPECT_DOUBLE_EQ(Costs().Gain(kAllReduce, 100, 4), 0.8);   // 4 x 10 in 50, which is a loss
}

TEST(LinkCostsTest, UnknownKindTakesHalfAnAllReduce) {
  EXPECT_DOUBLE_EQ(Costs().Seconds(kReduceScatter, 100), 5);
  EXPECT_DOUBLE_EQ(Costs().Seconds(kAllGather, 100), 4);
}

TEST(LinkCostsTest, ScaledChangesTimesAlone) {
  const LinkCosts slower = Costs().Scaled(3);
  EXPECT_DOUBLE_EQ(slower.Seconds(kAllReduce, 100), 30);
  EXPECT_DOUBLE_EQ(slower.Seconds(kAllGather, 100), 12);
  EXPECT_DOUBLE_EQ(slower.Gain(kAllReduce, 100, 2), 1.25);
  EXPECT_DOUBLE_EQ(slower.Processor(kAllReduce, 100, 1), 0.4);
}

TEST(LinkCostsTest, WithProcessorChangesUseOfProcessorsAlone) {
  const LinkCosts free = Costs().WithProcessor(0.25);
  EXPECT_DOUBLE_EQ(free.Processor(kAllReduce, 1e6, 4), 0.25);
  EXPECT_DOUBLE_EQ(free.Seconds(kAllReduce, 100), 10);
}

TEST(LinkCostsTest, KnowsNamesOfRecords) {
  EXPECT_EQ(KindOf("all_reduce"), kAllReduce);
  EXPECT_EQ(KindOf("reduce_scatter"), kReduceScatter);
  EXPECT_EQ(KindOf("all_gather"), kAllGather);
}

TEST(LinkCostsTest, RefusesCostsWithoutASingleAllReduce) {
  EXPECT_THROW(LinkCosts({{kAllGather, 1, 100, 4, 0.1}}), InvalidInput);
  EXPECT_THROW(LinkCosts({{kAllReduce, 2, 100, 4, 0.1}}), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
