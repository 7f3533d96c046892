#include "tools/analysis/pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

// Differences of steps of the same round: costs, and their parts.
namespace gradsync::tools {
namespace {

using bench::Record;

void ExpectParts(const Cost& cost, double exposed, double own, double tax, double rest) {
  EXPECT_NEAR(1e3 * cost.exposed, exposed, 1e-6);
  EXPECT_NEAR(1e3 * cost.own, own, 1e-6);
  EXPECT_NEAR(1e3 * cost.tax, tax, 1e-6);
  EXPECT_NEAR(1e3 * cost.rest, rest, 1e-6);
  EXPECT_NEAR(1e3 * cost.total.value, exposed + own + tax + rest, 1e-6);
}

TEST(CostTest, EachDelayHasItsPart) {
  const Phases floor, exposed{.exposed = 3}, begin{.begin_step = 2}, hook{.hooks = 1.5}, slow{.backward = 16},
      update{.optimizer = 2.5};
  const Tabled t({{Made("none", Steps(floor)), Made("a", Steps(exposed)), Made("b", Steps(begin)),
                   Made("c", Steps(hook)), Made("d", Steps(slow)), Made("e", Steps(update))}});
  ExpectParts(t.cost("a@gloo"), 3, 0, 0, 0);
  ExpectParts(t.cost("b@gloo"), 0, 2, 0, 0);
  ExpectParts(t.cost("c@gloo"), 0, 1.5, 0, 0);
  ExpectParts(t.cost("d@gloo"), 0, 0, 1, 0);
  ExpectParts(t.cost("e@gloo"), 0, 0, 0, 0.5);
  EXPECT_NEAR(1e3 * t.row("a@gloo").MeanOf(kSkew), 4, 1e-6);  // nobody's communication
  EXPECT_TRUE(std::isnan(t.cost("none").total.value));
}

// Rank 0 leaves every barrier 7 ms before rank 1, and waits for it: the step begins with rank 1.
TEST(CostTest, AStepBeginsWhenTheLastRankHasLeftTheBarrier) {
  const Tabled late({{Made("none", Steps({})), Made("core", Steps({.exposed = 3}), 7)}});
  ExpectParts(late.cost("core@gloo"), 3, 0, 0, 0);
  EXPECT_NEAR(late.row("core@gloo").step_s, 25.2e-3, 1e-4);
}

// Clocks of two hosts do not compare.
TEST(CostTest, OtherHostsAreNotAligned) {
  const Change apart = [](Record& rank) { rank.provenance.host = "host" + std::to_string(rank.rank); };
  const Tabled t(
      {{Made("none", Steps({}), 0, "run", apart), Made("core", Steps({.exposed = 3}), 7, "run", apart)}});
  EXPECT_NEAR(t.row("core@gloo").step_s, 32.2e-3, 1e-4);
}

// Ten steps of 0.1 or 30 ms: what they scatter by is more than the 15 ms that they take on average.
TEST(RowsTest, NoStepIsShorterThanNothing) {
  std::vector<double> uneven(10, 0.1);
  for (size_t i = 0; i < uneven.size(); i += 2) uneven[i] = 30;
  const Tabled t(
      {{Steady("core", Wobble(100, 10, 1)), Steady("flat", Wobble(60, 10, 2)), Steady("zero1", uneven)}});
  const Interval interval = t.comparison("zero1@gloo").estimate.interval;
  EXPECT_EQ(interval.low, -1);
  EXPECT_LT(interval.high, -0.5);
  EXPECT_LT(t.comparison("zero1@gloo").estimate.value, -0.8);
}

// One of four launches was enough: with three looks, each interval is as wide as 1.67 % need.
TEST(PrecisionTest, PlannedLooksWidenIntervals) {
  const auto noisy = [](size_t seed) {
    std::vector<Phases> steps = Steps({.exposed = 3}, 200);
    for (size_t i = 0; i < steps.size(); ++i) steps[i].exposed += 0.01 * static_cast<double>(i * seed % 101);
    return steps;
  };
  const Change planned = [](Record& rank) {
    rank.config.Set("precision", bench::Value(0.02));
    rank.facts.Set("launches", 4);
  };
  const auto cell = [&](const Change& change) {
    return std::vector{Made("none", Steps({}, 200), 0, "run", change),
                       Made("core", noisy(7), 0, "run", change), Made("flat", noisy(11), 0, "run", change)};
  };
  const Tabled looked({cell(planned)}), fixed({cell({})});
  EXPECT_EQ(looked.measured[0].num_looks, 3u);
  EXPECT_EQ(fixed.measured[0].num_looks, 1u);
  const double wider = SidakCritical(1, 0.05 / 3) / SidakCritical(1);
  EXPECT_NEAR(PrecisionOf(looked.measured[0]) / PrecisionOf(fixed.measured[0]), wider, 0.01);
  const Interval& widest = fixed.comparison("flat@gloo").estimate.interval;
  EXPECT_NEAR(PrecisionOf(fixed.measured[0]), (widest.high - widest.low) / 2, 1e-9);
  EXPECT_TRUE(std::isnan(PrecisionOf(Tabled({{Made("core", Steps({}))}}).measured[0])));
}

TEST(CostTest, WithoutTheFloorItIsUnknown) {
  const Tabled t({{Made("core", Steps({.exposed = 3})), Made("naive", Steps({.exposed = 5}))}});
  EXPECT_TRUE(std::isnan(t.cost("core@gloo").total.value));
  EXPECT_FALSE(t.cost("core@gloo").total.interval.is_known());
}

// An interrupted run: `none` took more steps.
TEST(CostTest, OnlyRoundsThatBothHaveArePaired) {
  std::vector<Phases> more = Steps({});
  more.insert(more.end(), 3, Phases{.backward = 500});
  const Tabled t({{Made("none", more), Made("core", Steps({.exposed = 3}))}});
  ExpectParts(t.cost("core@gloo"), 3, 0, 0, 0);
}

// Disturbed steps, fewer than a fifth, move neither the cost nor its parts.
TEST(CostTest, AFewDisturbedStepsMoveNothing) {
  std::vector<Phases> core = Steps({.exposed = 3});
  for (size_t i = 0; i < 4; ++i) core[6 * i].exposed = 80;
  const Tabled t({{Made("none", Steps({})), Made("core", core)}});
  ExpectParts(t.cost("core@gloo"), 3, 0, 0, 0);
}

TEST(CostTest, APeersFloorIsItsOwn) {
  const Tabled t({{Made("none", Steps({})), Made("pytorch_none", Steps({.backward = 30})),
                   Made("pytorch_core", Steps({.backward = 30, .exposed = 3}))}});
  ExpectParts(t.cost("pytorch_core@gloo"), 3, 0, 0, 0);
}

// By how much rounds differ, for a strategy: deterministic, with a mean of about 0.
double Noise(size_t round, int strategy) {
  const double x = std::sin(12.9898 * static_cast<double>(round + 1) + 78.233 * strategy) * 43758.5453;
  return x - std::floor(x) - 0.5;
}

// Rounds that differ by up to 3.5 ms.
std::vector<Phases> Wandering(int strategy, const Phases& phases) {
  std::vector<Phases> steps(40, phases);
  for (size_t i = 0; i < steps.size(); ++i) steps[i].backward += 3.5 * Noise(i, strategy);
  return steps;
}

Measurement OfTwoLaunches(std::string_view variant, int phase, double first_ms, double second_ms) {
  const auto launch = [&](std::string_view run, double ms, int own_phase) {
    return Steady(variant, Wobble(ms, 24, own_phase), [&](Record& rank) { rank.run_id = run; });
  };
  Measurement both = launch("a", first_ms, phase);
  AddLaunch(launch("b", second_ms, phase + 10), &both);
  return both;
}

// Launches differ over shm alone. Rows are told apart from launches among those with one baseline.
TEST(RowsTest, WhatLaunchesHaveOfTheirOwnIsFoundForEachBaseline) {
  const Tabled t({{OfTwoLaunches("core@gloo", 1, 20, 20), OfTwoLaunches("flat@gloo", 2, 20, 20),
                   OfTwoLaunches("core@shm", 3, 20, 20), OfTwoLaunches("flat@shm", 4, 20, 22)}});
  const auto steps = [&](size_t row) { return t.groups[0][row].Find("step_ns")->max; };
  std::vector<RoundDifferences> family;
  for (const size_t base : {0, 2}) {
    std::vector<double> values = steps(base + 1);
    for (size_t i = 0; i < values.size(); ++i) values[i] -= steps(base)[i];
    family.push_back({.values = values, .divisors = steps(base), .base = &t.groups[0][base]});
  }
  const std::vector<Estimate> expected = EstimateRounds(family, {24, 24});
  EXPECT_EQ(t.comparison("flat@gloo").estimate, expected[0]);
  EXPECT_EQ(t.comparison("flat@shm").estimate, expected[1]);
  family[1].base = family[0].base;
  EXPECT_NE(EstimateRounds(family, {24, 24})[0], expected[0]);
}

// The reference: differences by round, trimmed by a fifth.
TEST(RowsTest, EstimatesAreTheReferences) {
  const std::vector<std::string> names = {"none", "naive", "flat", "core"};
  Group group;
  std::vector<std::vector<double>> steps;
  for (size_t k = 0; k < names.size(); ++k) {
    group.push_back(
        Made(names[k], Wandering(static_cast<int>(k), {.exposed = 0.7 * static_cast<double>(k)})));
    steps.emplace_back(group.back().Find("step_ns")->max);
  }
  const auto location = [&](size_t own, size_t other) {
    std::vector<double> differences;
    for (size_t i = 0; i < steps[0].size(); ++i) differences.push_back(steps[own][i] - steps[other][i]);
    std::ranges::sort(differences);
    const size_t cut = differences.size() / 5;
    return Mean(std::span(differences).subspan(cut, differences.size() - 2 * cut));
  };
  const Tabled t({group});
  EXPECT_EQ(Text(t.table("ddp"), 2, "samples"), "40 rounds");
  for (const size_t k : {1u, 2u}) {
    const std::string row = names[k] + "@gloo";
    EXPECT_NEAR(t.comparison(row).estimate.value * TrimmedMean(steps[3]), location(k, 3), 1e-12);
    EXPECT_NEAR(t.cost(row).total.value, location(k, 0), 1e-12);
  }
}

// Ranks take turns in being slow. In one step the slower rank counts; over eight steps both are equally slow.
// So a row with a period that does nothing is no faster than its floor. The machine is slower in the second
// launch.
TEST(CostTest, ThePeriodOfARowIsItsFloorsToo) {
  const auto made = [](std::string_view strategy, int64_t period, int seed, const std::string& run) {
    constexpr size_t kRounds = 300;
    std::vector<Record> ranks;
    for (const int rank : {0, 1}) {
      Record record = DdpRecord(strategy, rank, Repeat(kMs, kRounds));
      for (const auto& [name, samples] : DdpRecord(strategy, rank, {kMs}).samples)
        record.samples[SampleName::Of(name)].assign(kRounds, 0);
      for (size_t i = 0; i < kRounds; ++i) {
        double sum_ms = 0;
        for (int64_t step = 0; step < period; ++step)
          sum_ms += (run == "a" ? 20 : 22) + 4 * Noise(i * 8 + static_cast<size_t>(step), seed + rank);
        const int64_t ns = std::llround(kMs * sum_ms / static_cast<double>(period));
        record.samples["forward_ns"][i] = 5 * kMs;
        record.samples["backward_ns"][i] = ns - 5 * kMs;
      }
      if (period > 1) record.facts.Set("period", period);
      record.facts.Set("launch_set", "set");
      record.run_id = run;
      ranks.push_back(std::move(record));
    }
    return CombineRanks(std::move(ranks));
  };
  Group group = {made("none", 1, 10, "a"), made("local_sgd", 8, 20, "a"), made("core", 1, 30, "a")};
  AddLaunch(made("none", 1, 40, "b"), &group[0]);
  AddLaunch(made("local_sgd", 8, 50, "b"), &group[1]);
  AddLaunch(made("core", 1, 60, "b"), &group[2]);
  const Tabled t({group});
  const Cost periodic = t.cost("local_sgd@gloo");
  // The maximum of two draws is 0.67 ms above their mean, that of two means of eight 0.24 ms.
  EXPECT_LT(1e3 * (t.row("local_sgd@gloo").step_s - t.row("none").step_s), -0.3);
  EXPECT_NEAR(1e3 * periodic.total.value, 0, 0.12);
  EXPECT_LT(periodic.total.interval.low, 0);
  EXPECT_GT(periodic.total.interval.high, 0);
  EXPECT_NEAR(1e3 * periodic.tax, 0, 0.12);
  EXPECT_NEAR(1e3 * periodic.rest, 0, 1e-6);
  // Every step of another row counts alone.
  std::vector<double> plain = group[2].Find("step_ns")->max;
  for (size_t i = 0; i < plain.size(); ++i) plain[i] -= group[0].Find("step_ns")->max[i];
  EXPECT_NEAR(t.cost("core@gloo").total.value, TrimmedMean(plain), 1e-9);
}

// Launches differ with clipping alone, both in its floor and in `core`.
TEST(CostTest, WhatLaunchesHaveOfTheirOwnIsFoundForEachFloor) {
  const Tabled t({{OfTwoLaunches("none", 1, 20, 20), OfTwoLaunches("none:clip_norm=1", 2, 20, 22),
                   OfTwoLaunches("core", 3, 22, 22), OfTwoLaunches("core:clip_norm=1", 4, 22, 26),
                   OfTwoLaunches("flat", 5, 23, 23), OfTwoLaunches("flat:clip_norm=1", 6, 23, 23)}});
  const std::vector<Row>& rows = t.measured[0].rows;
  const auto minus = [](std::vector<double> a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
    return a;
  };
  const auto steps = [&](size_t row) { return t.groups[0][row].Find("step_ns")->max; };
  const auto cost = [&](size_t row) { return minus(steps(row), steps(row % 2)); };
  std::vector<RoundDifferences> family;
  for (const size_t row : {2, 3, 4, 5}) family.push_back({.values = cost(row), .base = &rows[row % 2]});
  const std::vector<Estimate> totals = EstimateRounds(family, {24, 24});
  for (const size_t row : {2, 3, 4, 5}) EXPECT_EQ(t.cost(rows[row].variant()).total, totals[row - 2]) << row;
  for (RoundDifferences& differences : family) differences.base = nullptr;
  EXPECT_NE(EstimateRounds(family, {24, 24}), totals);
  // What costs differ by belongs to the row that they are compared with.
  family = {{.values = minus(cost(4), cost(2)), .base = &rows[2]},
            {.values = minus(cost(5), cost(3)), .base = &rows[3]}};
  const std::vector<Estimate> expected = EstimateRounds(family, {24, 24});
  EXPECT_EQ(CompareCosts(t.measured[0], {{&rows[4], &rows[2]}, {&rows[5], &rows[3]}}), expected);
  family[1].base = &rows[2];
  EXPECT_NE(EstimateRounds(family, {24, 24}), expected);
}

// What clipping costs is no synchronisation.
TEST(CostTest, TheFloorClipsAsTheRowDoes) {
  const Change clip = [](Record& rank) { rank.variant.options["clip_norm"] = "1"; };
  const Phases more{.optimizer = 3}, waits{.exposed = 2, .optimizer = 3};
  const Tabled t({{Made("none", Steps({})), Made("none", Steps(more), 0, "run", clip),
                   Made("core", Steps({.exposed = 2})), Made("core", Steps(waits), 0, "run", clip)}});
  ExpectParts(t.cost("core@gloo"), 2, 0, 0, 0);
  ExpectParts(t.cost("core:clip_norm=1@gloo"), 2, 0, 0, 0);
  EXPECT_TRUE(std::isnan(t.cost("none:clip_norm=1").total.value));
  // Its step is still compared with `core`'s.
  EXPECT_NEAR(t.comparison("core:clip_norm=1@gloo").estimate.value, 1 / 24.2, 1e-3);
  const Tabled without({{Made("none", Steps({})), Made("core", Steps(waits), 0, "run", clip)}});
  ExpectParts(without.cost("core:clip_norm=1@gloo"), 2, 0, 0, 1);
}

}  // namespace
}  // namespace gradsync::tools
