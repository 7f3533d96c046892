#include "tools/tables/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A machine that drifts, on which strategies take turns.
class Machine {
 public:
  Case Measure(double batch_size, double seq_len, const std::vector<std::pair<std::string, double>>& means,
               size_t rounds = 20) {
    Case one_case{Join(batch_size, "x", seq_len), {}, batch_size, seq_len};
    for (const auto& [strategy, mean] : means) one_case.variants.push_back({strategy, {}, 0.3, true});
    double drift = 1;
    for (size_t round = 0; round < rounds; ++round) {
      drift *= std::exp(0.02 * normal_(random_));
      for (size_t i = 0; i < means.size(); ++i) {
        one_case.variants[i].steps_s.push_back(drift * means[i].second * (0.94 + noise_(random_)));
      }
    }
    return one_case;
  }

 private:
  std::mt19937_64 random_{20261121};
  std::normal_distribution<double> normal_;
  std::gamma_distribution<double> noise_{2, 0.03};
};

constexpr BootstrapOptions kQuick = {.resamples = 500};

TEST(WinnerTest, SaysWhoIsFastestAndByHowMuch) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"none", 0.5}, {"naive", 1.2}, {"core", 1}, {"flat", 1.5}});
  const std::vector<std::string> sentences = WinnerSentences({one_case});
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_THAT(sentences[0], StartsWith("core is fastest: -1"));
  EXPECT_THAT(sentences[0], HasSubstr(" against naive and -3"));
  EXPECT_THAT(sentences[0], HasSubstr("] against flat (simultaneous 95 % CI)."));
}

TEST(WinnerTest, NamesWhatIsNotDecided) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"overlap", 1}, {"core", 1}, {"flat", 1.5}});
  const std::string sentence = WinnerSentences({one_case})[0];
  EXPECT_THAT(sentence, StartsWith("No strategy is shown to be fastest."));
  EXPECT_THAT(sentence, HasSubstr("decide nothing about its "));
  EXPECT_THAT(sentence, HasSubstr(", but show its -3"));
  EXPECT_THAT(sentence, HasSubstr("against flat"));
}

TEST(WinnerTest, CountsCells) {
  Machine machine;
  std::vector<Case> cases;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      const bool is_open = batch_size == 4 && seq_len == 512;
      cases.push_back(machine.Measure(batch_size, seq_len,
                                      {{"naive", 1.3}, {"core", 1}, {"overlap", is_open ? 1 : 1.1}}));
    }
  }
  const std::string sentence = WinnerSentences(cases)[0];
  EXPECT_THAT(sentence, StartsWith("core is fastest in 5 of 6 cells: -"));
  EXPECT_THAT(sentence, HasSubstr(" against overlap; in 4x512 no strategy is shown to be fastest"));
}

// With 400 sets the share has a standard error of 1.1 %.
TEST(WinnerTest, ClaimsNoWinnerWhereThereIsNone) {
  for (const size_t num_cases : {size_t{1}, size_t{6}}) {
    Machine machine;
    int claims = 0;
    constexpr int kSets = 400;
    for (int set = 0; set < kSets; ++set) {
      std::vector<Case> cases;
      for (size_t i = 0; i < num_cases; ++i) {
        cases.push_back(machine.Measure(2, static_cast<double>(i), {{"naive", 1}, {"core", 1}}));
      }
      const std::string sentence = WinnerSentences(cases, kQuick)[0];
      claims += sentence.find(" is fastest") != std::string::npos ? 1 : 0;
    }
    EXPECT_LE(claims, 0.075 * kSets) << num_cases << " cases";
  }
}

// The one with the smallest mean was chosen because it is small; what is said of it must allow for that.
TEST(WinnerTest, ClaimsNoLoserWhereThereIsNone) {
  Machine machine;
  int claims = 0;
  constexpr int kSets = 400;
  for (int set = 0; set < kSets; ++set) {
    const Case one_case =
        machine.Measure(2, 128, {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}});
    const std::string sentence = WinnerSentences({one_case}, kQuick)[0];
    claims += sentence.find(" is fastest") != std::string::npos ||
                      sentence.find("but show its") != std::string::npos
                  ? 1
                  : 0;
  }
  EXPECT_LE(claims, 0.075 * kSets);
}

TEST(WinnerTest, FindsADifferenceOfATenth) {
  Machine machine;
  int found = 0;
  constexpr int kSets = 100;
  for (int set = 0; set < kSets; ++set) {
    const Case one_case = machine.Measure(2, 128, {{"naive", 1.1}, {"core", 1}, {"flat", 1.15}});
    found += WinnerSentences({one_case}, kQuick)[0].starts_with("core is fastest") ? 1 : 0;
  }
  EXPECT_GE(found, 95);
}

TEST(WinnerTest, RefusesWhereAFlagMakesTimesVoid) {
  Machine machine;
  for (const Flag flag :
       {Flag::kWorldOfOne, Flag::kTraced, Flag::kTooFewForInterval, Flag::kPublished, Flag::kInBlocks}) {
    Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
    one_case.variants[1].flags = {{flag}, {Flag::kTooFewForP99}, {Flag::kDirty}};
    EXPECT_THAT(WinnerSentences({one_case}),
                ElementsAre(::testing::AllOf(StartsWith("No strategy is called fastest: "),
                                             HasSubstr(std::string(WordOf(flag))))));
  }
  // Not for others.
  Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
  one_case.variants[1].flags = {{Flag::kOversubscribed}, {Flag::kTooFewForP99}};
  EXPECT_THAT(WinnerSentences({one_case})[0], StartsWith("core is fastest"));
  EXPECT_THAT(WinnerSentences({one_case})[0], HasSubstr("more threads than CPUs"));
}

TEST(WinnerTest, AWrongResultWinsNothing) {
  Machine machine;
  Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}, {"flat", 1.4}});
  one_case.variants[1].flags = {{Flag::kUnequal}};
  EXPECT_THAT(WinnerSentences({one_case})[0], StartsWith("naive is fastest"));
  EXPECT_THAT(WinnerSentences({one_case})[0], Not(HasSubstr("core")));
}

TEST(WinnerTest, OneStrategyIsNoContest) {
  Machine machine;
  EXPECT_THAT(WinnerSentences({machine.Measure(2, 128, {{"none", 1}, {"core", 1}})}), IsEmpty());
}

std::vector<Case> Shares(const std::vector<double>& shares) {
  std::vector<Case> cases;
  size_t i = 0;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      cases.push_back(
          {Join(batch_size, "x", seq_len), {{"overlap", {}, shares[i++], true}}, batch_size, seq_len});
    }
  }
  return cases;
}

TEST(TrendTest, SaysWhereTheShareFalls) {
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.17, 0.27, 0.19, 0.13})),
              ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                          "batch and falls with every larger sequence (13 to 32 %)."));
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.17, 0.33, 0.19, 0.13})),
              ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                          "sequence (13 to 33 %)."));
  EXPECT_THAT(TrendSentences(Shares({0.32, 0.26, 0.27, 0.33, 0.19, 0.13})), IsEmpty());
}

TEST(TrendTest, LeavesOutOutliersAndSaysSo) {
  std::vector<Case> cases = Shares({0.52, 0.51, 0.46, 0.51, 0.47, 0.90});
  EXPECT_THAT(TrendSentences(cases), IsEmpty());
  cases.back().variants.front().flags = {{Flag::kOutlierCell}, {Flag::kPublished}};
  EXPECT_THAT(
      TrendSentences(cases),
      ElementsAre("In the means, the share of synchronisation under overlap falls with every larger "
                  "batch and falls with every larger sequence (46 to 52 %; without 4x512, off the trend)."));
}

}  // namespace
}  // namespace gradsync::tools
