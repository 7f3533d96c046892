#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tools/records/test_records.h"
#include "tools/tables/fields.h"
#include "tools/tables/test_tables.h"
#include "tools/tables/words.h"

// Of every kind of sentence one set of records that supports it, and one that does not.
namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::string Sentences(const Group& group) { return Tabled({group}).findings("ddp"); }

Measurement Of(std::string_view strategy, double mean_ms, int phase, const Change& change = {}) {
  return Steady(strategy, Wobble(mean_ms, 24, phase), change);
}

TEST(FindingsTest, TheBaselineIsFastestIfAllOthersAreShownSlower) {
  const std::string text =
      Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("flat", 112, 2), Of("naive", 125, 3)});
  EXPECT_THAT(text,
              MatchesRegex("core is fastest, [0-9.]+ to [0-9.]+ % faster than flat, the next; core costs "
                           "[0-9.]+ to 1[0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("flat", 100.5, 2), Of("naive", 125, 3)}),
              Not(HasSubstr("fastest")));
}

TEST(FindingsTest, OfOneOtherTheDifferenceIsNamed) {
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("naive", 125, 3)}),
              MatchesRegex("core is [0-9.]+ to [0-9.]+ % faster than naive\\."));
}

TEST(FindingsTest, AnotherIsFasterOnlyIfThatIsShown) {
  EXPECT_THAT(Sentences({Of("core", 125, 1), Of("overlap", 100, 2), Of("naive", 150, 3)}),
              MatchesRegex("overlap is [0-9.]+ to [0-9.]+ % faster than core; core is faster than naive\\."));
  EXPECT_THAT(Sentences({Of("core", 100.3, 1), Of("overlap", 100, 2)}), Not(HasSubstr("faster")));
}

TEST(FindingsTest, EqualMeansThatTheIntervalLiesWithinThreePercent) {
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("overlap", 100.2, 2)}),
              StartsWith("core equals overlap within 3 %."));
  std::vector<double> wide = Wobble(101, 24, 2);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 12 : -12;
  const std::string open = Sentences({Of("core", 100, 1), Steady("overlap", wide)});
  EXPECT_THAT(open, Not(HasSubstr("equals")));
  EXPECT_THAT(open, StartsWith("overlap against core is open."));
}

// 24 rounds of 201 ms; the half-width has to become 2 %, or so.
TEST(FindingsTest, WhatIsOpenSaysWhatItWouldTake) {
  std::vector<double> wide = Wobble(101, 24, 2);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 12 : -12;
  const Tabled t({{Of("core", 100, 1), Steady("overlap", wide)}});
  EXPECT_THAT(t.findings("ddp"),
              HasSubstr("To decide what is open, measure longer: core against overlap@gloo about "));
  const Row& row = t.row("overlap@gloo");
  const double half = (row.against_baseline.interval.high - row.against_baseline.interval.low) / 2;
  const double wanted =
      std::max(std::abs(row.against_baseline.value), 0.03 - std::abs(row.against_baseline.value));
  EXPECT_NEAR(SecondsToDecide(t.cells[0], row), (half * half / wanted / wanted - 1) * 24 * t.cells[0].round_s,
              1e-9);
  EXPECT_NEAR(t.cells[0].round_s, 0.201, 0.003);
  const Tabled decided({{Of("core", 100, 1), Of("naive", 125, 2)}});
  EXPECT_EQ(SecondsToDecide(decided.cells[0], decided.row("naive@gloo")), 0);
  EXPECT_THAT(decided.findings("ddp"), Not(HasSubstr("To decide")));
}

TEST(FindingsTest, ACostThatIsNotShownIsAtMostItsLimit) {
  EXPECT_THAT(Sentences({Of("none", 100, 0), Of("core", 100.1, 1)}),
              MatchesRegex("core costs at most [0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1)}),
              MatchesRegex("core costs [0-9.]+ to 1[0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("naive", 125, 2)}), Not(HasSubstr("costs")));
}

TEST(FindingsTest, OptionsTellRowsOfOneStrategyApart) {
  const Change clip = [](Record& rank) {
    rank.config.Set("variant", rank.config.StringOr("strategy", "") + ":clip_norm=1@gloo");
  };
  EXPECT_THAT(
      Sentences({Of("core", 100, 1), Of("core", 110, 2, clip), Of("naive", 125, 3)}),
      MatchesRegex("core is fastest, [0-9.]+ to [0-9.]+ % faster than core:clip_norm=1, the next\\."));
}

// Though its own cost is not shown to be above zero.
TEST(FindingsTest, TheCheapestIsNamed) {
  EXPECT_THAT(Sentences({Of("none", 100, 0), Of("core", 112, 1), Of("overlap", 100.1, 2)}),
              HasSubstr("; the cheapest, overlap, costs at most "));
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("naive", 125, 2)}),
              Not(HasSubstr("cheapest")));
}

TEST(FindingsTest, BackendsHaveAClauseEach) {
  const Change shm = [](Record& rank) { SetBackend("shm", &rank); };
  const std::string text = Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("naive", 125, 2),
                                      Of("core", 92, 3, shm), Of("naive", 105, 4, shm)});
  EXPECT_THAT(text, MatchesRegex("Over gloo: core is [0-9.]+ to [0-9.]+ % faster than naive; core costs .* "
                                 "step\\. Over shm: core is "
                                 "[0-9.]+ to [0-9.]+ % faster than naive; core costs .* step\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("naive", 125, 2)}), Not(HasSubstr("ver gloo")));
}

TEST(FindingsTest, ManyPlacesAreCounted) {
  std::vector<Group> groups;
  for (const int64_t batch_size : {2, 4, 8, 16, 32}) {
    const Change place = [batch_size](Record& rank) { rank.config.Set("batch_size", batch_size); };
    groups.push_back({Of("none", 90, 0, place), Of("core", 100, 1, place),
                      Of("naive",
                         batch_size == 2   ? 125
                         : batch_size == 4 ? 80
                                           : 100.2,
                         2, place)});
  }
  const std::string text = Tabled(std::move(groups)).findings("ddp");
  EXPECT_THAT(text, MatchesRegex("Against core in 5 comparisons each: naive is slower in 1 \\(by 2[0-9.]+ to "
                                 "2[0-9.]+ %\\), faster in 1, equal in 3\\. Of a step, core costs .*"));
}

TEST(FindingsTest, AVoidRunSaysWhyAndNothingElse) {
  for (const auto& [word, change] : std::vector<std::pair<std::string, Change>>{
           {"`traced`", [](Record& rank) { rank.config.Set("traced", true); }},
           {"`in-blocks`", [](Record& rank) { rank.config.Set("order", "blocks"); }},
           {"`shared-gpu`", [](Record& rank) { rank.facts.Set("ranks_per_gpu", 2); }}}) {
    const std::string text =
        Sentences({Of("none", 90, 0, change), Of("core", 100, 1, change), Of("naive", 125, 2, change)});
    EXPECT_THAT(text, StartsWith("Which strategy is fastest is not said. " + word));
    EXPECT_THAT(text, Not(HasSubstr("core")));
  }
}

TEST(WordsTest, RangesShowTheirWidth) {
  EXPECT_EQ(PercentRange({0.14, 0.19}), "14 to 19 %");
  EXPECT_EQ(PercentRange({0.004, 0.014}), "0.4 to 1.4 %");
  EXPECT_EQ(PercentRange({0.002, 0.05}), "0.2 to 5.0 %");
  EXPECT_EQ(PercentRange({0.0004, 0.05}), "up to 5 %");
  EXPECT_EQ(TimeRange({0.31, 0.36}), "0.31 to 0.36 s");
  EXPECT_EQ(TimeRange({0.0091, 0.0134}), "9 to 13 ms");
  EXPECT_EQ(TimeText(0.1183), "118 ms");
  EXPECT_EQ(TimeText(1.13), "1.1 s");
  EXPECT_EQ(DurationText(40), "40 seconds");
  EXPECT_EQ(DurationText(360), "6 minutes");
  EXPECT_EQ(DurationText(1e6), "over a day");
  EXPECT_EQ(Listed({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace gradsync::tools
