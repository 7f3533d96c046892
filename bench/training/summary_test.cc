#include "bench/training/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/record.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;

TEST(SummaryTest, MediansAreInTheMiddle) {
  EXPECT_EQ(Median({3000, 1000, 2000}), 2000);
  EXPECT_EQ(Median({3000, 1000}), 2000);
}

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

TEST(SummaryTest, ShowsMediansAndWhatIsNotKnown) {
  Case the_case;
  the_case.labels = {{"batch", "2"}, {"sequence", "8"}};
  Record record;
  record.samples = {
      {"step_ns", {3006, 1000, 2013}}, {"forward_ns", {3000, 1000, 2000}},     {"backward_ns", {1, 1, 1}},
      {"sync_exposed_ns", {5, 5, 5}},  {"backward_and_sync_ns", {60, 60, 60}}, {"optimizer_ns", {7, 7, 7}}};
  Summary summary;
  summary.Add(the_case, {"flat"}, record);
  record.samples.erase("backward_ns");
  record.samples.erase("sync_exposed_ns");
  summary.Add(the_case, {"pytorch_ddp"}, record);
  const std::string text = summary.ToString();
  EXPECT_THAT(text, HasSubstr("batch sequence  strategy              step   forward  backward      sync "
                              "optimizer  check\n"));
  EXPECT_THAT(text, HasSubstr("    2        8  flat               2.01 us   2.00 us   0.00 us   0.01 us "
                              "  0.01 us  not checked\n"));
  EXPECT_THAT(text, HasSubstr("    2        8  pytorch_ddp        2.01 us   2.00 us   0.06 us         - "
                              "  0.01 us  not checked\n"));
}

}  // namespace
}  // namespace gradsync::bench
