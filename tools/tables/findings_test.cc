#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "tools/records/test_records.h"
#include "tools/tables/fields.h"
#include "tools/tables/test_tables.h"
#include "tools/tables/words.h"

// Of every kind of sentence one set of records that supports it, and one that does not.
namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::string Sentences(const Group& group) { return Tabled({group}).findings("ddp"); }

std::vector<double> WithWideNoise(double mean_ms) {
  std::vector<double> wide = Wobble(mean_ms, 24, 2);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 12 : -12;
  return wide;
}

Measurement Of(std::string_view strategy, double mean_ms, int phase, const Change& change = {}) {
  return Steady(strategy, Wobble(mean_ms, 24, phase), change);
}

TEST(FindingsTest, TheBaselineIsFastestIfAllOthersAreShownSlower) {
  const std::string text =
      Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("flat", 112, 2), Of("naive", 125, 3)});
  EXPECT_THAT(text, MatchesRegex("core is fastest, at least [89] % faster than any other row; core costs "
                                 "[0-9.]+ to 1[0-9.]+ ms of its [0-9.]+ ms step\\."));
  EXPECT_THAT(Sentences({Of("core", 100, 1), Of("flat", 100.5, 2), Of("naive", 125, 3)}),
              Not(HasSubstr("fastest")));
}

// The nearest by its estimate is not the one that may be nearest.
TEST(FindingsTest, FasterThanAllMeansByTheLowestEnd) {
  std::vector<double> wide = Wobble(125, 24, 3);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 22 : -22;
  const Tabled t({{Of("core", 100, 1), Of("flat", 118, 2), Steady("naive", wide)}});
  ASSERT_LT(t.row("flat@gloo").against_baseline.value, t.row("naive@gloo").against_baseline.value);
  const double low = t.row("naive@gloo").against_baseline.interval.low;
  ASSERT_GT(low, 0);
  ASSERT_LT(low, t.row("flat@gloo").against_baseline.interval.low);
  EXPECT_EQ(t.findings("ddp"), Join("core is fastest, at least ", PercentAtLeast(low / (1 + low)),
                                    " faster than any other row."));
}

TEST(FindingsTest, UpToFourThatAreSlowerAreNamed) {
  Group group = {Of("core", 100, 1), Of("overlap", 100.2, 2), Of("flat", 112, 2), Of("naive", 125, 3)};
  EXPECT_THAT(Sentences(group), MatchesRegex("core is at least [89] % faster than flat and naive; core "
                                             "equals overlap within 3 %\\."));
  for (const char* const strategy : {"bucketed_sync", "bucketed_async", "zero1"})
    group.push_back(Of(strategy, 130, 3));
  EXPECT_THAT(Sentences(group), MatchesRegex("core is at least [89] % faster than 5 others; core equals .*"));
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
  const std::string open = Sentences({Of("core", 100, 1), Steady("overlap", WithWideNoise(101))});
  EXPECT_THAT(open, Not(HasSubstr("equals")));
  EXPECT_THAT(open, StartsWith("overlap against core is open."));
}

// 24 rounds, which take 250 ms on the watch, with what is not timed; the half-width has to become 2 % / 1.3,
// or so, and the rounds are whole blocks of two.
TEST(FindingsTest, WhatIsOpenSaysWhatItWouldTake) {
  const Change watch = [](Record& rank) {
    std::vector<int64_t>& begins = rank.samples["begin_ns"];
    for (int64_t i = 0; i < 24; ++i) begins.push_back(250 * kMs * i);
  };
  const Tabled t({{Of("core", 100, 1, watch), Steady("overlap", WithWideNoise(101), watch)}});
  const Row& row = t.row("overlap@gloo");
  const double half = (row.against_baseline.interval.high - row.against_baseline.interval.low) / 2;
  const double wanted =
      std::max(std::abs(row.against_baseline.value), 0.03 - std::abs(row.against_baseline.value));
  EXPECT_NEAR(t.cells[0].round_s, 0.25, 1e-9);
  const double rounds = std::pow(1.3 * half / wanted, 2) * 24,
               seconds = SecondsToDecide(t.cells[0], row.against_baseline);
  EXPECT_NEAR(seconds, 2 * std::ceil(rounds / 2) * 0.25, 1e-9);
  EXPECT_THAT(t.findings("ddp"), HasSubstr(Join("To decide what is open, measure again: core against "
                                                "overlap@gloo with `--time=",
                                                DurationFlag(seconds), "`.")));
  EXPECT_NEAR(Tabled({{Of("core", 100, 1), Of("naive", 101, 2)}}).cells[0].round_s, 0.201, 0.003);
  const Tabled decided({{Of("core", 100, 1), Of("naive", 125, 2)}});
  EXPECT_THAT(decided.findings("ddp"), Not(HasSubstr("To decide")));
}

// `core` and `overlap`, whose steps have such a mean in each launch.
Group InLaunches(const std::vector<double>& means_ms, bool is_wide, const Change& change = {}) {
  Group group;
  for (const double mean_ms : means_ms) {
    const Change launch = [&](Record& rank) {
      rank.run_id = Join("launch ", mean_ms);
      if (change) change(rank);
    };
    const Group own = {Of("core", 100, 1, launch),
                       Steady("overlap", is_wide ? WithWideNoise(mean_ms) : Wobble(mean_ms, 24, 2), launch)};
    if (group.empty()) {
      group = own;
    } else {
      for (size_t i = 0; i < own.size(); ++i) AddLaunch(own[i], &group[i]);
    }
  }
  return group;
}

// Launches share the time; those of a run that may end early are all that were planned.
TEST(FindingsTest, TimeIsThatOfAllLaunches) {
  const auto blocks_of_launches = [](const Tabled& t, double num_launches) {
    return SecondsToDecide(t.cells[0], t.row("overlap@gloo").against_baseline) /
           (num_launches * 2 * t.cells[0].round_s);
  };
  const Tabled all({InLaunches({101, 101.1}, true)});
  EXPECT_THAT(all.findings("ddp"), HasSubstr(" --repeats=2`."));
  const Tabled early({InLaunches({101, 101.1}, true, [](Record& rank) {
    rank.config.Set("precision", bench::Value(0.02));
    rank.facts.Set("launches", 4);
  })});
  EXPECT_THAT(early.findings("ddp"), Not(HasSubstr("--repeats")));
  for (const double blocks : {blocks_of_launches(all, 2), blocks_of_launches(early, 4)}) {
    EXPECT_GT(blocks, 1);
    EXPECT_NEAR(blocks, std::round(blocks), 1e-9);
  }
  // More than all rounds so far, and not only than those of one launch.
  EXPECT_GT(blocks_of_launches(all, 2) * 2 * 2, 48);
}

TEST(FindingsTest, WhereLaunchesAreTheSamplesMoreLaunchesDecide) {
  const Tabled t({InLaunches({96, 100, 104}, false)});
  EXPECT_THAT(t.findings("ddp"), HasSubstr("core against overlap@gloo with `--repeats="));
  // Which are to stay as long as they are.
  const Tabled timed(
      {InLaunches({96, 100, 104}, false, [](Record& rank) { rank.config.Set("time", "1m"); })});
  EXPECT_THAT(timed.findings("ddp"),
              ContainsRegex("core against overlap@gloo with `--time=[0-9]+[ms][^ ]* --repeats="));
  EXPECT_THAT(t.table("ddp").notes()[0], HasSubstr("over 72 rounds of 3 launches"));
  EXPECT_THAT(t.table("ddp").notes()[0], HasSubstr("they, and not rounds, are the samples"));
}

Change AtSize(const char* strategy, int64_t mebi) {
  return [=](Record& rank) {
    rank.config.Set("variant", Join(strategy, ":bucket_elements=", mebi, "Mi@gloo"));
    rank.config.Set("bucket_elements", mebi << 20);
  };
}

TEST(FindingsTest, SizesOfBucketsAreCompared) {
  const auto sized = [](const char* strategy, double mean_ms, int phase, int64_t mebi) {
    return Of(strategy, mean_ms, phase, AtSize(strategy, mebi));
  };
  const std::string text =
      Sentences({sized("core", 100, 1, 1), sized("core", 110, 1, 3), sized("core", 100.1, 3, 7),
                 sized("naive", 125, 2, 1), sized("naive", 125, 2, 3), sized("naive", 125, 2, 7)});
  EXPECT_THAT(text,
              HasSubstr("Over gloo, bucket_elements=3Mi against bucket_elements=1Mi with core: 10.0 to "
                        "10.0 % slower. Over gloo, bucket_elements=7Mi against bucket_elements=1Mi with "
                        "core: equal within 3 %."));
  const auto wide = [](int64_t mebi, int sign) {
    std::vector<double> steps = Wobble(100, 24, 1);
    for (size_t i = 0; i < steps.size(); ++i) steps[i] += i % 2 == 0 ? sign * 20 : sign * -20;
    return Steady("core", steps, AtSize("core", mebi));
  };
  EXPECT_THAT(
      Sentences({wide(1, 1), wide(7, -1), sized("naive", 225, 2, 1), sized("naive", 225, 2, 7)}),
      ContainsRegex("=1Mi with core: open\\. To decide what is open, measure again: .*bucket_elements=7Mi "
                    "against bucket_elements=1Mi over gloo with `--time=[0-9]+[smh]`\\."));
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
  EXPECT_THAT(Sentences({Of("core", 100, 1), Steady("core", WithWideNoise(101), clip), Of("flat", 100.2, 3)}),
              MatchesRegex("core equals flat within 3 %; core:clip_norm=1 against core is open\\..*"));
}

// Though its own cost is not shown to be above zero.
TEST(FindingsTest, TheSmallestEstimateOfCostsIsNamed) {
  EXPECT_THAT(Sentences({Of("none", 100, 0), Of("core", 112, 1), Of("overlap", 100.1, 2)}),
              HasSubstr("; the smallest estimate is that of overlap, which costs at most "));
  EXPECT_THAT(Sentences({Of("none", 90, 0), Of("core", 100, 1), Of("naive", 125, 2)}),
              Not(HasSubstr("smallest")));
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
  EXPECT_THAT(
      text, MatchesRegex(
                "Against core in 5 comparisons each: naive is slower in 1, faster in 1, equal in 3\\. Of its "
                "step, core costs [0-9]+ to 1[0-9] % at batch 2 .*; naive nothing at batch 4 and 2[0-9] "
                "to [23][0-9] % at batch 2\\."));
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
  EXPECT_EQ(PercentAtLeast(0.0496), "4 %");
  EXPECT_EQ(PercentAtLeast(0.04), "4 %");
  EXPECT_EQ(PercentAtLeast(0.0129), "1.2 %");
  EXPECT_EQ(PercentAtLeast(0.00042), "0.04 %");
  EXPECT_EQ(PercentAtMost(0.0841), "9 %");
  EXPECT_EQ(PercentAtMost(0.0121), "1.3 %");
  EXPECT_EQ(TimeRange({0.31, 0.36}), "0.31 to 0.36 s");
  EXPECT_EQ(TimeRange({0.0091, 0.0134}), "9 to 13 ms");
  EXPECT_EQ(TimeText(0.1183), "118 ms");
  EXPECT_EQ(TimeText(1.13), "1.1 s");
  EXPECT_EQ(DurationText(40), "40 seconds");
  EXPECT_EQ(DurationText(360), "6 minutes");
  EXPECT_EQ(DurationText(1e6), "over a day");
  EXPECT_EQ(DurationFlag(31), "40s");
  EXPECT_EQ(DurationFlag(91), "2m");
  EXPECT_EQ(DurationFlag(1e4), "3h");
  EXPECT_EQ(Listed({"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace gradsync::tools
