#include "tools/statistics/regression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace gradsync::tools {
namespace {

using Values = std::vector<double>;

// Steps as they are: a floor, and delays that are rare and long.
class Machine {
 public:
  Values Steps(size_t count, double mean) {
    Values steps;
    for (size_t i = 0; i < count; ++i) steps.push_back(mean * (0.94 + delay_(random_)));
    return steps;
  }

 private:
  std::mt19937_64 random_{20261121};
  std::gamma_distribution<double> delay_{2, 0.03};
};

struct Share {
  double any_false = 0;  // of the comparisons, those that call a row that is as it was slower or faster
  double slower = 0;     // of the rows that are slower, those that are called so
};

// `num_rows` rows, the first `num_slower` of which have become slower by `by`.
Share Simulate(size_t num_rows, size_t num_slower, double by, const GateOptions& options, int sets) {
  Machine machine;
  Share share;
  for (int set = 0; set < sets; ++set) {
    std::vector<ComparedSamples> rows;
    for (size_t i = 0; i < num_rows; ++i) {
      rows.push_back({machine.Steps(20, i < num_slower ? 1 + by : 1), machine.Steps(20, 1)});
    }
    const std::vector<Judgement> judgements = JudgeRows(rows, options);
    bool is_false = false;
    for (size_t i = 0; i < num_rows; ++i) {
      const bool is_slower = judgements[i].verdict == Verdict::kSlower;
      if (i < num_slower) {
        share.slower += is_slower ? 1.0 / (sets * static_cast<double>(num_slower)) : 0;
      } else {
        is_false |= is_slower || judgements[i].verdict == Verdict::kFaster;
      }
    }
    share.any_false += is_false ? 1.0 / sets : 0;
  }
  return share;
}

GateOptions Quick(double threshold = 0) { return {threshold, {.resamples = 500}}; }

// With 400 sets the share has a standard error of 1.1 %. By intervals of 95 % each, 50 rows would give 92 %.
TEST(RegressionTest, FiftyRowsThatAreAsTheyWereSeldomFailTheGate) {
  EXPECT_LE(Simulate(50, 0, 0, Quick(), 400).any_false, 0.075);
}

TEST(RegressionTest, ASlowdownOfATenthIsFound) {
  const Share share = Simulate(50, 3, 0.1, Quick(), 100);
  EXPECT_GE(share.slower, 0.95);
  EXPECT_LE(share.any_false, 0.1);
}

TEST(RegressionTest, AThresholdForgivesWhatIsBelowIt) {
  EXPECT_LE(Simulate(20, 20, 0.05, Quick(0.1), 40).slower, 0.001);
  EXPECT_GE(Simulate(20, 20, 0.2, Quick(0.05), 40).slower, 0.95);
}

TEST(RegressionTest, SaysWhatItCannotJudge) {
  const std::vector<Judgement> judgements = JudgeRows({{Values(20, 2), {}},
                                                       {{}, Values(20, 2)},
                                                       {Values(9, 2), Values(20, 1)},
                                                       {Values(20, 2), Values(20, 1)},
                                                       {Values(20, 1), Values(20, 2)},
                                                       {Values(20, 1), Values(20, 1)}});
  EXPECT_EQ(judgements[0].verdict, Verdict::kOnlyHere);
  EXPECT_TRUE(std::isnan(judgements[0].difference));
  EXPECT_EQ(judgements[1].verdict, Verdict::kOnlyThere);
  EXPECT_EQ(judgements[2].verdict, Verdict::kTooFew);
  EXPECT_EQ(judgements[2].difference, 1);
  EXPECT_EQ(judgements[3].verdict, Verdict::kSlower);
  EXPECT_EQ(judgements[4].verdict, Verdict::kFaster);
  EXPECT_EQ(judgements[5].verdict, Verdict::kNotShown);
}

}  // namespace
}  // namespace gradsync::tools
