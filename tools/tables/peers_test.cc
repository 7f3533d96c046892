#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(PeersTableTest, WithoutPeersThereIsNone) {
  EXPECT_FALSE(Tabled({{AtPlace("naive", 2, 128, 1), AtPlace("core", 2, 128, 1)}}).has("peers"));
}

TEST(PeersTableTest, ComparesWithTheTwinOfTheSameCell) {
  const Tabled t(
      {{AtPlace("naive", 2, 128, 1), AtPlace("core", 2, 128, 1), AtPlace("pytorch_naive", 2, 128, 4)},
       {AtPlace("naive", 4, 128, 1), AtPlace("pytorch_naive", 4, 128, 2)},
       {AtPlace("naive", 8, 128, 1)}});
  const Table& table = t.table("peers");
  ASSERT_EQ(table.num_rows(), 2u);
  EXPECT_EQ(Text(table, 0, "variant"), "b2: naive@gloo");
  EXPECT_EQ(Text(table, 0, "peer"), "pytorch_naive@gloo");
  EXPECT_NEAR(Number(table, 0, "ratio_to_pytorch"), 0.25, 1e-9);
  EXPECT_NEAR(Number(table, 1, "ratio_to_pytorch"), 0.5, 1e-9);
}

TEST(PeersTableTest, EagerAndCompiledStandBelowEachOther) {
  const auto with_memory = [](std::string_view strategy, int64_t factor, int64_t bytes) {
    return Ddp(strategy, factor, [bytes](Record& rank) {
      rank.facts.Set("num_parameters", 1000);
      rank.facts.Set("peak_bytes_in_use", bytes);
    });
  };
  const Tabled t({{with_memory("core", 2, 18000), with_memory("pytorch_core", 4, 24000),
                   with_memory("pytorch_core_compiled", 1, 20000)}});
  const Table& table = t.table("peers");
  ASSERT_EQ(table.num_rows(), 2u);
  EXPECT_NEAR(Number(table, 0, "ratio_to_pytorch"), 0.5, 1e-9);
  EXPECT_EQ(Number(table, 0, "memory (B/param)"), 18);
  EXPECT_EQ(Number(table, 0, "peer's memory (B/param)"), 24);
  EXPECT_DOUBLE_EQ(Number(table, 0, "memory_ratio_to_pytorch"), 0.75);
  EXPECT_EQ(Text(table, 1, "peer"), "pytorch_core_compiled@gloo");
  EXPECT_NEAR(Number(table, 1, "ratio_to_pytorch"), 2, 1e-9);
  EXPECT_EQ(Text(table, 1, "peer equals single process"), "yes");
}

// PyTorch has no shm: its rows are compared over the backend that they have, if gradsync's rows do.
TEST(PeersTableTest, BackendsAreThePeers) {
  const auto over_shm = [](Record& rank) { rank.variant.backend = "shm"; };
  const Tabled both({{Ddp("core", 1), Ddp("core", 1, over_shm), Ddp("pytorch_core", 1)}});
  ASSERT_EQ(both.table("peers").num_rows(), 1u);
  EXPECT_EQ(Text(both.table("peers"), 0, "variant"), "core@gloo");
  const Tabled shm({{Ddp("core", 1, over_shm), Ddp("pytorch_core", 1)}});
  EXPECT_EQ(Text(shm.table("peers"), 0, "variant"), "core@shm");
  // People are told the backend where it is another.
  EXPECT_EQ(both.table("peers").text(0, 1), "pytorch_core");
  EXPECT_EQ(shm.table("peers").text(0, 1), "pytorch_core@gloo");
}

// Both drift alike, and no trimmed mean holds outliers; but a disturbed row is one for both.
TEST(PeersTableTest, WarningsAreThoseThatAreAgainstThePair) {
  std::vector<double> steps = Wobble(100, 100, 1);
  steps[7] = 900;
  const auto disturbed = [](Record& rank) { rank.samples["others_cpu_ns"] = Repeat(40 * kMs, 100); };
  const Tabled t({{Steady("none", steps, disturbed), Steady("pytorch_none", steps)}});
  EXPECT_THAT(TextOf(t.row("none").warnings), HasSubstr("drifts"));
  EXPECT_THAT(TextOf(t.row("none").warnings), HasSubstr("outliers:1"));
  EXPECT_EQ(Text(t.table("peers"), 0, "warnings"), "disturbed:5% one-launch");
}

Group Pair(size_t steps, const Change& change = {}) {
  return {Steady("none", Wobble(90, steps, 0), change), Steady("core", Wobble(100, steps, 1), change),
          Steady("pytorch_none", Wobble(100, steps, 2), change),
          Steady("pytorch_core", Wobble(130, steps, 3), change)};
}

TEST(PeersTableTest, ShowsWhatSynchronisationCostsOnEachSideOverItsOwnFloor) {
  const Tabled t({Pair(24)});
  const Table& table = t.table("peers");
  EXPECT_NEAR(Number(table, 1, "sync_cost (s)"), 0.010, 0.001);
  EXPECT_NEAR(Number(table, 1, "peer's sync_cost (s)"), 0.030, 0.001);
  EXPECT_LT(Number(table, 1, "peer's sync_cost_low (s)"), Number(table, 1, "peer's sync_cost (s)"));
  EXPECT_NEAR(Number(table, 1, "difference of costs (s)"), -0.020, 0.001);
  EXPECT_LT(Number(table, 1, "difference of costs_high (s)"), -0.015);
  EXPECT_NEAR(Number(table, 1, "floors' ratio"), 0.9, 0.01);
  EXPECT_TRUE(std::isnan(Number(table, 0, "difference of costs (s)")));
  EXPECT_THAT(
      t.findings("peers"),
      MatchesRegex(
          "Against PyTorch's twin, synchronisation, in per cent of PyTorch's step without it: cheaper "
          "by 1[0-9] to 2[0-9] %: core@gloo\\. Against PyTorch's twin, whole steps: faster by .* %: "
          "core@gloo\\."));
}

// Two steps of a rank that is slow in each second one take as long on both ranks: a row of that period costs
// nothing beside a floor whose steps are as slow as the slower rank's.
TEST(PeersTableTest, PeriodicRowsAreComparedWithFloorsOfTheirPeriod) {
  const auto row = [](std::string_view strategy, bool is_periodic) {
    return Steady(strategy, std::vector<double>(24, 100), [&](Record& record) {
      std::vector<int64_t>& steps = record.samples["optimizer_ns"];
      for (size_t i = 0; i < steps.size() && !is_periodic; ++i)
        steps[i] += (i + static_cast<size_t>(record.rank)) % 2 == 0 ? 10 * kMs : -10 * kMs;
      if (is_periodic) record.facts.Set("period", 2);
    });
  };
  const Tabled t(
      {{row("none", false), row("flat", true), row("pytorch_none", false), row("pytorch_flat", false)}});
  EXPECT_NEAR(Number(t.table("peers"), 1, "difference of costs (s)"), 0, 1e-6);
}

// As for all rows: ten rounds, taken in turn, not traced.
TEST(PeersTableTest, ClaimsFollowTheRulesOfAllRows) {
  const Tabled few({Pair(9)});
  EXPECT_TRUE(std::isnan(Number(few.table("peers"), 0, "ratio_to_pytorch_low")));
  EXPECT_TRUE(std::isnan(Number(few.table("peers"), 1, "peer's sync_cost_low (s)")));
  EXPECT_THAT(few.findings("peers"),
              MatchesRegex("Steps, as parts of PyTorch's: none 0\\.[0-9]+\\. No verdict\\. `n<10`.*"));
  EXPECT_THAT(Text(few.table("peers"), 0, "warnings"), HasSubstr("n<10"));
  const Tabled blocks({Pair(24, [](Record& rank) { rank.config.Set("order", "blocks"); })});
  EXPECT_THAT(blocks.findings("peers"), HasSubstr("No verdict. `in-blocks`"));
}

TEST(PeersTableTest, AWrongPeerIsNotCompared) {
  Group group = Pair(24);
  group[3] =
      Steady("pytorch_core", Wobble(130, 24, 3), [](Record& rank) { rank.checks.Set("grads_equal", false); });
  const Tabled t({group});
  EXPECT_EQ(t.findings("peers"), "");
  EXPECT_THAT(Text(t.table("peers"), 1, "warnings"), HasSubstr("unequal"));
}

TEST(PeersTableTest, ADisturbedPeerHasNoVerdict) {
  Group group = Pair(24);
  group[3] = Steady("pytorch_core", Wobble(130, 24, 3), [](Record& rank) {
    rank.samples["others_cpu_ns"] =
        Repeat(std::llround(0.12 * 130 * kMs * static_cast<double>(rank.provenance.cpu_count)), 24);
  });
  const Tabled t({group});
  EXPECT_THAT(Text(t.table("peers"), 1, "warnings"), HasSubstr("disturbed:12%"));
  EXPECT_THAT(t.findings("peers"), Not(HasSubstr("core@gloo")));
}

TEST(PeersTableTest, EachPairHasItsVerdict) {
  Group group = Pair(24);
  group.push_back(Steady("pytorch_core_view", Wobble(120, 24, 4)));
  group.push_back(Steady("pytorch_core_compiled", Wobble(80, 24, 5)));
  EXPECT_THAT(
      Tabled({group}).findings("peers"),
      MatchesRegex(".*whole steps: slower by .* %: core@gloo \\(compiled twin\\); faster by .* %: core@gloo "
                   "and core@gloo\\."));
}

TEST(PeersTableTest, WhatIsOpenSaysWhatItWouldTake) {
  Group group = Pair(24);
  std::vector<double> wide = Wobble(101, 24, 3);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 20 : -20;
  group[3] = Steady("pytorch_core", wide);
  EXPECT_THAT(Tabled({group}).findings("peers"), HasSubstr("open: core@gloo (-"));
  EXPECT_THAT(Tabled({group}).findings("peers"), HasSubstr("%, decided with `--time="));
  EXPECT_THAT(Tabled({Pair(24)}).findings("peers"), Not(HasSubstr("decided")));
}

}  // namespace
}  // namespace gradsync::tools
