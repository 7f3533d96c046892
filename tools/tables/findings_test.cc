#include "tools/tables/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <random>
#include <sstream>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// What strategies took in a cell.
struct Case {
  std::string name;
  std::vector<Variant> variants;
};

// A machine that drifts, on which strategies take turns.
class Machine {
 public:
  Case Measure(double batch_size, double seq_len, const std::vector<std::pair<std::string, double>>& means,
               size_t rounds = 20) {
    Case one_case{Join(batch_size, "x", seq_len), {}};
    for (const auto& [strategy, mean] : means) {
      one_case.variants.push_back({strategy, {.values = {}, .is_in_turn = true}});
    }
    double drift = 1;
    for (size_t round = 0; round < rounds; ++round) {
      drift *= std::exp(0.02 * normal_(random_));
      for (size_t i = 0; i < means.size(); ++i) {
        one_case.variants[i].steps.values.push_back(drift * means[i].second * (0.94 + noise_(random_)));
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

// A cell more than those before it.
void AddCase(const Case& one_case, Contest* contest, const std::string& baseline = "naive",
             const RunKey& run = {}) {
  for (const Variant& variant : one_case.variants) contest->Add(run, one_case.name, baseline, variant);
}

std::vector<std::string> SentencesOf(Contest contest, const BootstrapOptions& bootstrap = {}) {
  Intervals intervals(bootstrap);
  contest.Compare(&intervals);
  intervals.Compute();
  return contest.Sentences(intervals);
}

std::vector<std::string> SentencesOf(const std::vector<Case>& cases, const BootstrapOptions& bootstrap = {},
                                     const std::string& baseline = "naive") {
  Contest contest;
  for (const Case& one_case : cases) AddCase(one_case, &contest, baseline);
  return SentencesOf(std::move(contest), bootstrap);
}

size_t NumWords(const std::string& sentence) {
  std::istringstream words(sentence);
  return static_cast<size_t>(std::distance(std::istream_iterator<std::string>(words), {}));
}

TEST(WinnerTest, SaysWhoIsFastestAndByHowMuch) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"none", 0.5}, {"naive", 1.2}, {"core", 1}, {"flat", 1.5}});
  EXPECT_THAT(SentencesOf({one_case}),
              ElementsAre(MatchesRegex("core is fastest, 1[0-9] to [12][0-9] % faster than naive\\.")));
  EXPECT_THAT(SentencesOf({one_case}, {}, "none"),
              ElementsAre(MatchesRegex("core is fastest, at least 1[0-9] % faster than any other\\.")));
}

TEST(WinnerTest, NamesWhatCannotBeToldApart) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"overlap", 1}, {"core", 1}, {"naive", 1.5}});
  EXPECT_THAT(
      SentencesOf({one_case}),
      ElementsAre(MatchesRegex("(core and overlap|overlap and core) are [23][0-9] to 3[0-9] % faster than "
                               "naive; they cannot be told apart\\.")));
  EXPECT_THAT(SentencesOf({one_case}, {}, "flat"),
              ElementsAre(MatchesRegex(".* are faster than naive; they cannot be told apart\\.")));
  const Case equal = machine.Measure(2, 128, {{"overlap", 1}, {"core", 1}}, 40);
  EXPECT_THAT(SentencesOf({equal}), ElementsAre(MatchesRegex(".* cannot be told apart\\.")));
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
  EXPECT_THAT(SentencesOf(cases), ElementsAre("core is fastest in 5 of 6 cells; in 1 it is open."));
  cases.pop_back();
  EXPECT_THAT(SentencesOf(cases),
              ElementsAre(MatchesRegex("core is fastest in 5 of 5 cells, 1[0-9] to [23][0-9] % faster than "
                                       "naive\\.")));
}

// core is shown faster than naive, which overlap, whose steps vary, is not.
TEST(WinnerTest, SaysNothingOfThoseThatIntervalsDoNotShow) {
  Machine machine;
  Case one_case = machine.Measure(2, 128, {{"core", 1}, {"overlap", 1.05}, {"naive", 1.3}});
  for (size_t i = 0; i < 20; ++i) one_case.variants[1].steps.values[i] *= i % 4 == 0 ? 2.5 : 0.55;
  Contest contest;
  AddCase(one_case, &contest);
  Intervals intervals({});
  contest.Compare(&intervals);
  intervals.Compute();
  EXPECT_THAT(contest.Sentences(intervals),
              ElementsAre("No strategy is shown to be fastest, but core is faster than naive."));
  EXPECT_TRUE(contest.IsAmongFastest({0, 0}, intervals));
  EXPECT_FALSE(contest.IsAmongFastest({0, 1}, intervals));
}

// However many there are, and whatever comes out.
TEST(WinnerTest, ASentenceHasAtMost25Words) {
  const std::vector<std::string> names = {"naive",          "flat",        "overlap",     "bucketed_sync",
                                          "bucketed_async", "core",        "core (8KiB)", "core (1MiB)",
                                          "overlap (8KiB)", "flat (8KiB)", "naive (8KiB)"};
  Machine machine;
  for (const double slower : {1.0, 1.3}) {
    for (size_t num_slower = 0; num_slower <= names.size(); ++num_slower) {
      std::vector<std::pair<std::string, double>> means;
      for (size_t i = 0; i < names.size(); ++i) means.emplace_back(names[i], i < num_slower ? slower : 1);
      const Case one_case = machine.Measure(2, 128, means), other = machine.Measure(2, 256, means);
      for (const std::vector<Case>& cases : {std::vector{one_case}, std::vector{one_case, other}}) {
        for (const std::string& sentence : SentencesOf(cases, kQuick)) {
          EXPECT_LE(NumWords(sentence), 25u) << sentence;
        }
      }
    }
  }
}

TEST(WinnerTest, OfManyTheFirstIsNamed) {
  Machine machine;
  std::vector<std::pair<std::string, double>> means = {{"naive", 1.5}};
  for (char name = 'a'; name <= 'k'; ++name) means.emplace_back(std::string(1, name), 1);
  EXPECT_THAT(SentencesOf({machine.Measure(2, 128, means)}),
              ElementsAre(MatchesRegex("[a-k] and ten others are [23][0-9] to [34][0-9] % faster than naive; "
                                       "they cannot be told apart\\.")));
}

TEST(WinnerTest, ManyWinnersAreCounted) {
  Machine machine;
  std::vector<Case> cases;
  for (const char* const best : {"a", "b", "b", "c", "c", "c", "d"}) {
    std::vector<std::pair<std::string, double>> means;
    for (const char* const name : {"a", "b", "c", "d"})
      means.emplace_back(name, name == std::string(best) ? 1 : 1.4);
    cases.push_back(machine.Measure(2, static_cast<double>(cases.size()), means));
  }
  EXPECT_THAT(SentencesOf(cases), ElementsAre("c is fastest in 3 of 7 cells, b in 2, others in 2."));
}

// First all of them together, then each with what tells it from the others.
TEST(WinnerTest, SeveralRunsAreSummarisedFirst) {
  Machine machine;
  const Case won = machine.Measure(2, 128, {{"naive", 1.3}, {"core", 1}, {"overlap", 1.1}});
  const Case open = machine.Measure(2, 128, {{"naive", 1.3}, {"core", 1}, {"overlap", 1}});
  Case traced = won;
  traced.variants[0].flags = {{Flag::kTraced}};
  Contest contest;
  AddCase(won, &contest, "naive", {"Run a", "small", "gloo"});
  AddCase(open, &contest, "naive", {"Run b", "small", "shm"});
  AddCase(traced, &contest, "naive", {"Run c", "small", "shm"});
  const std::vector<std::string> sentences = SentencesOf(contest);
  ASSERT_EQ(sentences.size(), 4u);
  EXPECT_EQ(sentences[0], "core is fastest in 1 of 2 cells; in 1 it is open.");
  EXPECT_THAT(sentences[1], StartsWith("Run a, gloo: core is fastest, "));
  EXPECT_THAT(sentences[2], MatchesRegex("Run b, shm: .* they cannot be told apart\\."));
  EXPECT_THAT(sentences[3], StartsWith("Run c, shm: No strategy is called fastest: every step"));
  for (const char* const run : {"Run d", "Run e"}) AddCase(won, &contest, "naive", {run, "small", "shm"});
  EXPECT_THAT(SentencesOf(contest), ElementsAre("core is fastest in 3 of 4 cells; in 1 it is open."));
}

TEST(WinnerTest, AVariantOfATakenNameIsToldByItsDetail) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"core", 1.3}, {"naive", 1.2}, {"core", 1}});
  Contest contest;
  for (Variant variant : one_case.variants) {
    variant.detail = "8KiB";
    contest.Add({}, one_case.name, "naive", variant);
  }
  EXPECT_THAT(SentencesOf(contest), ElementsAre(StartsWith("core (8KiB) is fastest, ")));
}

TEST(WinnerTest, TheBestAreThoseThatNoneIsShownToBeat) {
  Machine machine;
  const Case one_case = machine.Measure(2, 128, {{"overlap", 1}, {"core", 1}, {"naive", 1.5}});
  Contest contest;
  AddCase(one_case, &contest);
  Intervals intervals(kQuick);
  contest.Compare(&intervals);
  intervals.Compute();
  EXPECT_TRUE(contest.IsAmongFastest({0, 0}, intervals));
  EXPECT_TRUE(contest.IsAmongFastest({0, 1}, intervals));
  EXPECT_FALSE(contest.IsAmongFastest({0, 2}, intervals));
  Table table = DifferencesTable("differences");
  contest.AddDifferences("", intervals, &table);
  EXPECT_EQ(table.num_rows(), 3u);
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
      const std::string sentence = SentencesOf(cases, kQuick)[0];
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
    const std::string sentence = SentencesOf({one_case}, kQuick)[0];
    claims += sentence.find("faster than") != std::string::npos ? 1 : 0;
  }
  EXPECT_LE(claims, 0.075 * kSets);
}

TEST(WinnerTest, FindsADifferenceOfATenth) {
  Machine machine;
  int found = 0;
  constexpr int kSets = 100;
  for (int set = 0; set < kSets; ++set) {
    const Case one_case = machine.Measure(2, 128, {{"naive", 1.1}, {"core", 1}, {"flat", 1.15}});
    found += SentencesOf({one_case}, kQuick)[0].starts_with("core is fastest") ? 1 : 0;
  }
  EXPECT_GE(found, 95);
}

TEST(WinnerTest, RefusesWhereAFlagMakesTimesVoid) {
  Machine machine;
  for (const Flag flag :
       {Flag::kWorldOfOne, Flag::kTraced, Flag::kTooFewForInterval, Flag::kPublished, Flag::kInBlocks}) {
    Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
    one_case.variants[1].flags = {{flag}, {Flag::kTooFewForP99}, {Flag::kDirty}};
    EXPECT_THAT(SentencesOf({one_case}),
                ElementsAre(::testing::AllOf(StartsWith("No strategy is called fastest: "),
                                             HasSubstr(std::string(WordOf(flag))))));
  }
  // Not for others.
  Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}});
  one_case.variants[1].flags = {{Flag::kOversubscribed}, {Flag::kTooFewForP99}};
  EXPECT_THAT(SentencesOf({one_case})[0], StartsWith("core is fastest"));
  EXPECT_THAT(SentencesOf({one_case})[1], HasSubstr("more threads than CPUs"));
}

TEST(WinnerTest, AWrongResultWinsNothing) {
  Machine machine;
  Case one_case = machine.Measure(2, 128, {{"naive", 1.2}, {"core", 1}, {"flat", 1.4}});
  one_case.variants[1].flags = {{Flag::kUnequal}};
  EXPECT_THAT(SentencesOf({one_case})[0], StartsWith("naive is fastest"));
  EXPECT_THAT(SentencesOf({one_case})[0], Not(HasSubstr("core")));
}

TEST(WinnerTest, OneStrategyIsNoContest) {
  Machine machine;
  EXPECT_THAT(SentencesOf({machine.Measure(2, 128, {{"none", 1}, {"core", 1}})}), IsEmpty());
}

// Of 2 batch sizes and 3 sequence lengths, each known to +- `margin`.
std::vector<ShareInCell> Shares(const std::vector<double>& shares, double margin) {
  std::vector<ShareInCell> cells;
  size_t i = 0;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      cells.push_back({"overlap", batch_size, seq_len, {shares[i] - margin, shares[i] + margin}});
      ++i;
    }
  }
  return cells;
}

TEST(TrendTest, SaysWhereTheShareFalls) {
  EXPECT_EQ(
      TrendSentence(Shares({0.32, 0.26, 0.17, 0.27, 0.19, 0.13}, 0.01)),
      "The cost's share falls with every larger batch under every strategy, and falls with every larger "
      "sequence under every strategy.");
  EXPECT_EQ(TrendSentence(Shares({0.32, 0.26, 0.17, 0.33, 0.19, 0.13}, 0.01)),
            "The cost's share falls with every larger sequence under every strategy.");
  EXPECT_EQ(TrendSentence({}), "");
}

TEST(TrendTest, ManyTrendsAreNotListed) {
  std::vector<ShareInCell> shares = Shares({0.32, 0.26, 0.17, 0.27, 0.19, 0.13}, 0.01);
  for (const ShareInCell& share : Shares({0.13, 0.19, 0.27, 0.17, 0.26, 0.32}, 0.01)) {
    shares.push_back(share);
    shares.back().strategy = "core";
  }
  EXPECT_EQ(TrendSentence(shares),
            "How the cost's share changes with batch and sequence differs between strategies.");
}

// Means that fall in intervals that do not are no trend.
TEST(TrendTest, WhatIntervalsDoNotShowIsNoTrend) {
  EXPECT_EQ(TrendSentence(Shares({0.32, 0.26, 0.17, 0.27, 0.19, 0.13}, 0.04)),
            "No trend of the cost's share over batch or sequence is shown.");
}

TEST(TrendTest, NamesTheStrategies) {
  std::vector<ShareInCell> shares = Shares({0.32, 0.26, 0.17, 0.33, 0.19, 0.13}, 0.01);
  for (const ShareInCell& share : Shares({0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 0.01)) {
    shares.push_back(share);
    shares.back().strategy = "core";
  }
  EXPECT_EQ(TrendSentence(shares), "The cost's share falls with every larger sequence under overlap.");
}

}  // namespace
}  // namespace gradsync::tools
