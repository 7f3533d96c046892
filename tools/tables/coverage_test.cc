#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/answers.h"
#include "tools/measurements/test_records.h"
#include "tools/statistics/test_runs.h"
#include "tools/tables/test_tables.h"

// How often what tables print holds: simulated runs go through everything that records go through, with the
// floor, two baselines, and ratios.
namespace gradsync::tools {
namespace {

constexpr double kUnit = 1e-4;  // seconds; a step takes 0.1 s
constexpr double kEffect = 80;  // 8 % of a step; every other row has it
// Row 0 is the floor, then come these over gloo, and again over shm.
constexpr const char* kStrategies[] = {"core",           "naive", "flat",  "overlap",  "bucketed_sync",
                                       "bucketed_async", "zero1", "zero2", "bf16_wire"};

struct Design {
  std::span<const int> residuals = TinyResiduals();
  std::vector<size_t> launches{28};
  size_t num_strategies = 6;
};
struct Score {
  double deltas = 0, costs = 0;            // runs in which all deltas, and all costs, held the truth
  double delta_width = 0, cost_width = 0;  // means of half-widths, in per cent of a step
};

// Rows as records make them, whose steps are then overwritten.
Group Rows(const Design& design) {
  const std::vector<size_t>& launches = design.launches;
  const size_t num_rounds = std::accumulate(launches.begin(), launches.end(), size_t{0});
  Group group = {Steady("none", Wobble(100, num_rounds, 0))};
  for (const char* const backend : {"gloo", "shm"}) {
    const Change change = [backend](bench::Record& rank) { rank.variant.backend = backend; };
    for (size_t i = 0; i < design.num_strategies; ++i)
      group.push_back(Steady(kStrategies[i], Wobble(100, num_rounds, 0), change));
  }
  for (Measurement& row : group) {
    row.launches.clear();
    for (const size_t size : launches) row.launches.push_back({std::to_string(row.launches.size()), size});
  }
  return group;
}

bool Holds(const Estimate& estimate, double truth) {
  return estimate.interval.low <= truth && truth <= estimate.interval.high;
}

Score ScoreOf(const Design& design, int num_runs) {
  Draws draws(20261123);
  Score score;
  const size_t first_shm = 1 + design.num_strategies, num_rows = 2 * design.num_strategies;
  Values effects(1 + num_rows);
  for (size_t k = 1; k < effects.size(); k += 2) effects[k] = kEffect;
  const Values residuals(design.residuals.begin(), design.residuals.end());
  std::vector<Group> groups = {Rows(design)};
  for (int r = 0; r < num_runs; ++r) {
    Run run = Simulate(design.residuals, design.launches, effects, 0, &draws);
    for (size_t k = 0; k < effects.size(); ++k) {
      for (double& step : run.steps[k]) step *= kUnit;
      groups[0][k].series["step_ns"].max = run.steps[k];
    }
    const std::vector<Setting> settings = MakeSettings(groups);
    bool deltas_hold = true, costs_hold = true;
    for (size_t k = 1; k < effects.size(); ++k) {
      const Setting& setting = settings[0];
      const Cost cost = setting.CostOf(setting.rows[k]);
      costs_hold &= Holds(cost.total, kUnit * (effects[k] - effects[0]));
      score.cost_width += 100 * cost.total.interval.half_width() / (kUnit * kSimulatedStep) /
                          (static_cast<double>(num_rows) * num_runs);
      const size_t base = k < first_shm ? 1 : first_shm;
      const Comparison own = setting.ComparisonOf(setting.rows[k]);
      EXPECT_EQ(own.base, &setting.rows[base]);
      if (k == base) continue;
      const double of_base = run.mean + effects[base] + TrimmedMean(residuals);
      deltas_hold &= Holds(own.estimate, (effects[k] - effects[base]) / of_base);
      score.delta_width +=
          100 * own.estimate.interval.half_width() / (static_cast<double>(num_rows - 2) * num_runs);
    }
    score.deltas += deltas_hold / static_cast<double>(num_runs);
    score.costs += costs_hold / static_cast<double>(num_runs);
  }
  return score;
}

constexpr int kRuns = 1000;

TEST(CoverageTest, FamiliesHold) {
  for (const auto& [name, residuals] :
       {std::pair{"tiny", TinyResiduals()}, std::pair{"small", SmallResiduals()}}) {
    for (const std::vector<size_t>& launches : {std::vector<size_t>{12}, {84}, {28, 28}}) {
      for (const size_t num_strategies : {6, 9}) {
        const Score score = ScoreOf({residuals, launches, num_strategies}, kRuns);
        std::printf("%s, %zu x %zu rounds, %zu rows: deltas %.3f +- %.2f %%, costs %.3f +- %.2f %%\n", name,
                    launches.size(), launches[0], 2 * num_strategies, score.deltas, score.delta_width,
                    score.costs, score.cost_width);
        EXPECT_GE(score.deltas, 0.93) << name;
        EXPECT_GE(score.costs, 0.93) << name;
      }
    }
  }
}

// How often a choice is wrong: it leaves out the row that is the fastest in truth, or says "Use X" or "Equal"
// of a row that is further behind the fastest than it says. How often it names a row alone, and how often it
// says what to use.
struct BestScore {
  double wrong = 0, alone = 0, decided = 0;
};

// The third of four rows is the fastest, by so many per cent of a step.
BestScore BestScoreOf(const std::vector<size_t>& launches, double percent, double launch_std) {
  constexpr int kBestRuns = 2000;
  const Design design{.launches = launches, .num_strategies = 4};
  Draws draws(20261127);
  BestScore score;
  std::vector<Group> groups = {Rows(design)};
  groups[0].resize(1 + design.num_strategies);
  const std::string best = groups[0][3].strategy();
  Values effects(groups[0].size());
  effects[3] = -percent / 100 * kSimulatedStep;
  const double typical = TrimmedMean(Values(design.residuals.begin(), design.residuals.end()));
  for (int r = 0; r < kBestRuns; ++r) {
    Run run = Simulate(design.residuals, launches, effects, launch_std, &draws);
    for (size_t k = 0; k < effects.size(); ++k) {
      for (double& step : run.steps[k]) step *= kUnit;
      groups[0][k].series["step_ns"].max = run.steps[k];
    }
    const std::vector<Setting> settings = MakeSettings(groups);
    const Choice choice = MakeChoices(NameSettings(settings))[0];
    const auto is_best = [&](const Comparison* own) { return own->row->strategy() == best; };
    const double behind = -effects[3] / (run.mean + typical);  // of all other rows
    bool is_wrong = std::ranges::none_of(choice.candidates, is_best);
    const bool is_decided = choice.state == State::kUse || choice.state == State::kEqual;
    const size_t num_used = choice.state == State::kEqual ? choice.candidates.size() : 1;
    for (size_t k = 0; is_decided && k < num_used; ++k)
      is_wrong |= !is_best(choice.candidates[k]) && behind > choice.behind;
    score.wrong += (percent > 0 && is_wrong) / double{kBestRuns};
    score.alone += (choice.candidates.size() == 1) / double{kBestRuns};
    score.decided += is_decided / double{kBestRuns};
  }
  std::printf(
      "%zu x %zu rounds, launches differ by %.2f %%, best by %.0f %%: wrong %.3f, alone %.2f, decided %.2f\n",
      launches.size(), launches[0], launch_std / 10, percent, score.wrong, score.alone, score.decided);
  return score;
}

TEST(CoverageTest, WhatToUseIsSeldomWrong) {
  for (const std::vector<size_t>& launches :
       {std::vector<size_t>{28}, {84}, {28, 28}, {28, 28, 28}, {14, 14, 14, 14}}) {
    for (const double launch_std : {0.0, 12.5, 25.0, 50.0}) {
      if (launch_std > 0 && launches.size() == 1) continue;  // one launch says nothing of the next
      for (const double percent : {0.0, 1.0, 3.0, 6.0}) {
        const BestScore score = BestScoreOf(launches, percent, launch_std);
        EXPECT_LE(score.wrong, 0.05);
        if (percent == 0) {
          EXPECT_LE(score.alone, 0.02);
        } else if (percent == 6 && launch_std == 0) {
          EXPECT_GE(score.decided, 0.7);
        }
      }
    }
  }
}

// A choice, and the launches after it: as many runs as in which all printed differences to the baseline hold,
// in which a choice is wrong, and in which it says what to use; how many of the rows go on.
struct StagedScore {
  double hold = 0, wrong = 0, decided = 0, chosen = 0;
};

// The rows with these steps of so many rounds, from the first round of each launch on; `chosen` alone.
Group Staged(const Group& all, const std::vector<std::string>& chosen, const char* stage, const Run& run,
             const std::vector<size_t>& first_rounds, size_t num_rounds) {
  Group group;
  for (size_t k = 0; k < all.size(); ++k) {
    if (std::ranges::count(chosen, all[k].variant()) == 0) continue;
    Measurement& row = group.emplace_back(all[k]);
    row.record.facts.Set("stage", stage);
    row.launches.clear();
    Values steps;
    for (const size_t first : first_rounds) {
      row.launches.push_back({std::to_string(first), num_rounds});
      for (size_t i = first; i < first + num_rounds; ++i) steps.push_back(kUnit * run.steps[k][i]);
    }
    row.series["step_ns"].max = steps;
    row.num_steps = steps.size();
  }
  return group;
}

// The last of eight rows is the fastest.
StagedScore StagedScoreOf(std::span<const int> residuals, double percent, double launch_std) {
  constexpr int kStagedRuns = 400;
  constexpr size_t kFirst = 18, kMost = 36;  // rounds: a block of nine rows; what the later launches may have
  Group all = Rows({.num_strategies = 8});
  all.resize(9);
  std::vector<std::string> names;
  for (const Measurement& row : all) names.push_back(row.variant());
  Values effects(all.size());
  effects.back() = -percent / 100 * kSimulatedStep;
  const double typical = TrimmedMean(Values(residuals.begin(), residuals.end()));
  Draws draws(20261128);
  StagedScore score;
  for (int r = 0; r < kStagedRuns; ++r) {
    const Run run = Simulate(residuals, {kFirst, kMost, kMost}, effects, launch_std, &draws);
    std::vector<Group> groups = {Staged(all, names, "choosing", run, {0}, kFirst)};
    const std::vector<Setting> choosing = MakeSettings(groups);
    const std::string flags = ChooseForLaunches(NameSettings(choosing));
    const size_t variants = flags.find("--variants="), steps = flags.find(" --steps=");
    const std::vector<std::string> chosen = bench::Variant::Split(flags.substr(variants + 11, steps - 11));
    const size_t num_rounds = std::stoul(flags.substr(steps + 9));
    groups.push_back(Staged(all, chosen, "deciding", run, {kFirst, kFirst + kMost}, num_rounds));
    const std::vector<Setting> settings = MakeSettings(groups);
    EXPECT_EQ(settings.size(), 1u);
    const double of_base = run.mean + typical;
    bool hold = true;
    for (const Comparison& own : settings[0].comparisons) {
      const bool is_best = own.row->variant() == names.back();
      if (!own.is_of_baseline()) hold &= Holds(own.estimate, is_best ? effects.back() / of_base : 0);
    }
    const Choice choice = MakeChoices(NameSettings(settings))[0];
    const auto is_best = [&](const Comparison* own) { return own->row->variant() == names.back(); };
    const bool is_decided = choice.state == State::kUse || choice.state == State::kEqual;
    bool is_wrong = false;
    for (size_t k = 0; is_decided && k < (choice.state == State::kUse ? 1 : choice.candidates.size()); ++k)
      is_wrong |= !is_best(choice.candidates[k]) && -effects.back() / of_base > choice.behind;
    score.hold += hold / double{kStagedRuns};
    score.wrong += (percent > 0 && is_wrong) / double{kStagedRuns};
    score.decided += is_decided / double{kStagedRuns};
    score.chosen += static_cast<double>(chosen.size()) / static_cast<double>(names.size()) / kStagedRuns;
  }
  return score;
}

TEST(CoverageTest, AChoiceAndTheLaunchesAfterItHold) {
  for (const auto& [name, residuals] :
       {std::pair{"tiny", TinyResiduals()}, std::pair{"small", SmallResiduals()}}) {
    for (const double launch_std : {0.0, 12.5, 25.0, 50.0}) {
      for (const double percent : {0.0, 1.0, 3.0, 6.0}) {
        const StagedScore score = StagedScoreOf(residuals, percent, launch_std);
        std::printf(
            "%s, launches differ by %.2f %%, best by %.0f %%: hold %.3f, wrong %.3f, decided %.2f, "
            "chosen %.2f\n",
            name, launch_std / 10, percent, score.hold, score.wrong, score.decided, score.chosen);
        EXPECT_GE(score.hold, 0.94);
        EXPECT_LE(score.wrong, 0.05);
        if (launch_std == 0 && percent == 6) {
          EXPECT_GE(score.decided, 0.5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gradsync::tools
