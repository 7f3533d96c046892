#include "bench/training/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StrategyCheck GoodCheck() {
  StrategyCheck check;
  check.verdict = {1e-7, 2e-7, "a.weight", "b.weight", true};
  check.tolerance = 1e-4;
  return check;
}

TEST(StrategyCheckTest, PassesWithinTheTolerance) {
  EXPECT_TRUE(GoodCheck().passed());
  EXPECT_EQ(VerdictWord("core", GoodCheck()), "equal");
  EXPECT_EQ(Fault("core", GoodCheck()), "");
}

TEST(StrategyCheckTest, AFaultNamesStrategyTensorAndError) {
  StrategyCheck check = GoodCheck();
  check.verdict.param_rel_error = 0.25;
  EXPECT_EQ(
      Fault("core", check),
      "core: b.weight differs from a single process's by a relative error of 0.25, expected at most 0.0001");
  check.verdict.grad_rel_error = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Fault("core", check),
            "core: the gradient of a.weight differs from a single process's by a relative error of inf, "
            "expected at "
            "most 0.0001");
  EXPECT_EQ(VerdictWord("core", check), "WRONG");
}

TEST(StrategyCheckTest, ReplicasMustBeBitwiseEqual) {
  StrategyCheck check = GoodCheck();
  check.verdict.replicas_equal = false;
  EXPECT_EQ(Fault("flat", check), "flat: gradients or parameters are not bitwise equal on all ranks");
}

TEST(StrategyCheckTest, NoneIsMarkedNotBlamed) {
  StrategyCheck check = GoodCheck();
  check.verdict.replicas_equal = false;
  check.verdict.grad_rel_error = 1;
  EXPECT_EQ(Fault("none", check), "");
  EXPECT_EQ(VerdictWord("none", check), "replicas drift");
  EXPECT_EQ(VerdictWord("none", GoodCheck()), "equal");
}

StepResult StepOf(int64_t forward_ns, int64_t backward_ns) {
  StepResult step;
  step.marks.at_ns = {100, 100 + forward_ns, 100 + forward_ns + backward_ns,
                      100 + forward_ns + backward_ns + 5, 100 + forward_ns + backward_ns + 12};
  step.comm_busy_ns = 9;
  return step;
}

TEST(TrainingRecordTest, SamplesAreThePhasesOfEachStep) {
  Record record;
  SetTrainingSamples({{StepOf(10, 20), StepOf(30, 40)}, {4, 9}, 3}, record);
  EXPECT_THAT(record.samples["step_ns"], ElementsAre(42, 82));
  EXPECT_THAT(record.samples["forward_ns"], ElementsAre(10, 30));
  EXPECT_THAT(record.samples["backward_ns"], ElementsAre(20, 40));
  EXPECT_THAT(record.samples["sync_exposed_ns"], ElementsAre(5, 5));
  EXPECT_THAT(record.samples["optimizer_ns"], ElementsAre(7, 7));
  EXPECT_THAT(record.samples["comm_busy_ns"], ElementsAre(9, 9));
  EXPECT_THAT(record.samples["backward_and_sync_ns"], ElementsAre(25, 45));
  EXPECT_THAT(record.samples["position"], ElementsAre(4, 9));
  EXPECT_EQ(record.facts.IntOr("allocations_in_timed_steps", -1), 3);
}

TEST(TrainingRecordTest, SummaryShowsMedians) {
  const Place place = {{"batch", "2"}, {"sequence", "8"}};
  const StrategySamples odd{{StepOf(3000, 1), StepOf(1000, 1), StepOf(2000, 1)}, {0, 1, 2}, 0};
  EXPECT_EQ(Summarize(place, "flat", odd, "equal").forward_ns, 2000);
  const StrategySamples even{{StepOf(3000, 1), StepOf(1000, 1)}, {0, 1}, 0};
  const SummaryRow row = Summarize(place, "flat", even, "equal");
  EXPECT_EQ(row.forward_ns, 2000);
  const std::string text = FormatSummary({row});
  EXPECT_THAT(text, HasSubstr("sequence  strategy"));
  EXPECT_THAT(text, HasSubstr("    2        8  flat               2.01 us   2.00 us   0.00 us"));
}

}  // namespace
}  // namespace gradsync::bench
