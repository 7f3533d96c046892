#include "bench/training/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/verify.h"
#include "ddp/factory.h"

namespace gradsync::bench {
namespace {

TEST(SummaryTest, DriftIsMarkedWhereItIsMeant) {
  Verdict verdict = {1e-7, 2e-7, "a.weight", "b.weight", true, 1e-4};
  const auto word = [&](bool drifts) {
    CheckFields checks;
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

TEST(SummaryTest, EachVariantHasALineInItsCell) {
  const auto variant = [](const std::string& strategy, const std::string& floor) {
    TrainingVariant made{Variant::Parse(strategy)};
    made.traits = &ddp::FloorTraits();
    made.floor = floor;
    if (strategy != floor) made.backend = "gloo";
    return made;
  };
  CheckFields equal;
  SetChecks({1e-7, 2e-7, "a.weight", "b.weight", true, 1e-4}, equal);
  Summary summary;
  summary.Add("batch 2, sequence 8", variant("flat", "none"), {900'000, 1'100'000}, equal);
  summary.Add("batch 2, sequence 8", variant("none", "none"), {700'000}, {});
  summary.Add("batch 2, sequence 8", variant("pytorch_ddp", "pytorch_none"), {800'000}, {});
  summary.Add("batch 2, sequence 8", variant("pytorch_none", "pytorch_none"), {900'000}, {});
  summary.Add("batch 4, sequence 8", variant("core", "none"), {1'000'000}, {});
  EXPECT_EQ(summary.ToString(),
            "batch 2, sequence 8      step  check\n"
            "  flat@gloo           1.00 ms  equal\n"
            "  none                 700 us  not checked\n"
            "  pytorch_ddp@gloo     800 us  not checked\n"
            "  pytorch_none         900 us  not checked\n"
            "batch 4, sequence 8      step  check\n"
            "  core@gloo           1.00 ms  not checked\n");
}

}  // namespace
}  // namespace gradsync::bench
