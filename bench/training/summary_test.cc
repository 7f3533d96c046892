#include "bench/training/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/record.h"

namespace gradsync::bench {
namespace {

TEST(SummaryTest, DriftIsMarkedWhereItIsMeant) {
  Verdict verdict = {1e-7, 2e-7, "a.weight", "b.weight", true, 1e-4};
  const auto word = [&](bool drifts) {
    Fields checks;
    SetChecks(verdict, checks);
    return VerdictWord(checks, drifts);
  };
  EXPECT_EQ(word(false), "equal");
  EXPECT_EQ(word(true), "equal");
  verdict.replicas_equal = false;
  verdict.grad_rel_error = 1;
  EXPECT_EQ(word(false), "WRONG");
  EXPECT_EQ(word(true), "replicas drift");
  EXPECT_EQ(VerdictWord({}, false), "not checked");
}

// As the tables have it: the maximum over ranks of each step, then the mean.
TEST(SummaryTest, CostIsExposedAndTaxAndRest) {
  Case the_case;
  the_case.labels = {{"batch", "2"}, {"sequence", "8"}};
  Record record;
  record.samples = {{"step_ns", {900'000, 1'100'000}},
                    {"forward_ns", {300'000, 300'000}},
                    {"backward_ns", {400'000, 400'000}},
                    {"backward_and_sync_ns", {500'000, 700'000}}};
  const StepTimes times = TimesForSummary(record);
  EXPECT_EQ(times, (StepTimes{{900'000, 1'100'000}, {800'000, 1'000'000}, {700'000, 700'000}}));
  record.samples.erase("backward_ns");
  EXPECT_EQ(TimesForSummary(record), (StepTimes{times[0], times[1], {}}));
  Summary summary;
  summary.Add(the_case, {"flat"}, times);
  summary.Add(the_case, {"none"}, {{700'000}, {650'000}, {650'000}});
  summary.Add(the_case, {"pytorch_ddp"}, TimesForSummary(record));
  summary.Add(the_case, {"pytorch_none"}, {{900'000}, {}, {}});
  the_case.labels[0].second = "4";
  summary.Add(the_case, {"core"}, times);
  summary.SetVerdict(0, "equal");
  EXPECT_EQ(
      summary.ToString(),
      "batch sequence  strategy              step      cost   exposed       tax      rest  check\n"
      "    2        8  flat               1.00 ms    300 us    200 us   50.0 us   50.0 us  equal\n"
      "    2        8  none                700 us         -   0.00 us         -         -  not checked\n"
      "    2        8  pytorch_ddp        1.00 ms    100 us         -         -         -  not checked\n"
      "    2        8  pytorch_none        900 us         -         -         -         -  not checked\n"
      "    4        8  core               1.00 ms         -    200 us         -         -  not checked\n");
}

}  // namespace
}  // namespace gradsync::bench
