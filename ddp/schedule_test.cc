// What strategies send, and when.
#include "ddp/buckets/bucket.h"
#include "ddp/schedule_suite.h"

namespace gradsync::ddp {
namespace {

TEST_F(ScheduleTest, NoneSendsNothing) {
  Make("none");
  EXPECT_EQ(Step(), kGradients);
}

TEST_F(ScheduleTest, NaiveSendsEveryParameterAfterBackwardAndBlocks) {
  Make("naive");
  Events expected = kGradients;
  for (int i = 0; i < 5; ++i) expected = Concat(expected, {"reduce 262144", "wait reduce 262144"});
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, FlatSendsOnceAfterBackward) {
  Make("flat");
  EXPECT_EQ(Step(), Concat(kGradients, {"reduce 1310720", "wait reduce 1310720"}));
}

TEST_F(ScheduleTest, OverlapSendsEachGradientBeforeTheNextIsComputed) {
  Make("overlap");
  Events expected;
  for (int i = 4; i >= 0; --i) expected = Concat(expected, {"grad " + std::to_string(i), "reduce 262144"});
  expected.insert(expected.end(), 5, "wait reduce 262144");
  EXPECT_EQ(Step(), Concat(expected, {"broadcast 20", "wait broadcast 20"}));  // five indices: the order
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, OverlapSendsInTheOrderOfRank0sFirstStep) {
  Make("overlap");
  const std::vector<size_t> uses = {2, 0, 4, 1};  // 3 is unused, and ready at the end
  const Events first = Step(uses);
  Events expected = {"grad 1", "grad 4", "reduce 262144", "grad 0", "grad 2"};
  EXPECT_EQ(std::vector(first.begin(), first.begin() + 5), expected);
  expected.clear();
  for (const int i : {1, 4, 0, 2})
    expected = Concat(expected, {"grad " + std::to_string(i), "reduce 262144"});
  expected.push_back("reduce 262144");
  expected.insert(expected.end(), 5, "wait reduce 262144");
  EXPECT_EQ(Step(uses), expected);
  // As agreed, though here another order would be ready earlier.
  expected = {"grad 4", "grad 1", "reduce 262144", "reduce 262144", "grad 0", "reduce 262144", "grad 2"};
  const Events other = Step({2, 0, 1, 4});
  EXPECT_EQ(std::vector(other.begin(), other.begin() + 7), expected);
}

TEST_F(ScheduleTest, BucketedSyncSendsBucketsAfterBackwardAndBlocks) {
  Make("bucketed_sync");
  // Filled in forward order, {0 1} {2 3} {4}, and sent last first.
  EXPECT_EQ(Step(), Concat(kGradients, {"reduce 262144", "wait reduce 262144", "reduce 524288",
                                        "wait reduce 524288", "reduce 524288", "wait reduce 524288"}));
}

TEST_F(ScheduleTest, BucketedAsyncSendsAFullBucketBeforeTheNextGradient) {
  Make("bucketed_async");
  const Events expected = {"grad 4",
                           "reduce 262144",
                           "grad 3",
                           "grad 2",
                           "reduce 524288",
                           "grad 1",
                           "grad 0",
                           "reduce 524288",
                           "wait reduce 262144",
                           "wait reduce 524288",
                           "wait reduce 524288"};
  EXPECT_EQ(Step(), expected);
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, EveryStrategySendsEveryByteOnce) {
  for (const std::string& name : StrategyNames()) {
    if (TraitsOf(name).agreement != Agreement::kExact) continue;
    for (const size_t bucket_bytes : {size_t{1}, kBytes, 3 * kBytes, size_t{1} << 30}) {
      Make(name, bucket_bytes);
      for (int step = 0; step < 3; ++step) {
        StepAndUpdate();
        size_t sum = 0;
        for (const size_t bytes : group_.bytes()) sum += bytes;
        // Sharded: gradients to parts, and weights from parts; those of the first unit twice if they do not
        // stay.
        // Of five matrices for two ranks one has two, and the other two and as much padding.
        const size_t num_sent = TraitsOf(name).shards_state && !TraitsOf(name).divides_matrices ? 6 : 5;
        EXPECT_EQ(sum, (TraitsOf(name).shards_state ? 2 : 1) * num_sent * kBytes +
                           (TraitsOf(name).shards_values ? 2 * kBytes : 0))
            << name << ", buckets of " << bucket_bytes;
      }
      std::vector<size_t> planned;
      for (const Bucket& bucket : strategy_->plan().buckets) planned.push_back(bucket.bytes());
      EXPECT_EQ(group_.bytes(), planned) << name;
    }
  }
}

}  // namespace
}  // namespace gradsync::ddp
