#include "tools/tables/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "tools/records/test_records.h"
#include "tools/tables/summarize.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// Rank 0 computes 4 ms less than rank 1.
std::vector<Record> Ranks(std::string_view strategy, const std::vector<int64_t>& computed_ms,
                          const std::vector<int64_t>& exposed_ms, int64_t rest_ms,
                          const std::string& run = "20261122T000000-0000", int64_t seed = 0) {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    const int64_t earlier = rank == 0 ? 4 : 0;
    std::vector<int64_t> forward, backward, sync, step;
    for (size_t i = 0; i < computed_ms.size(); ++i) {
      forward.push_back(5 * kMs);
      backward.push_back((computed_ms[i] - 5 - earlier) * kMs);
      sync.push_back((exposed_ms[i] + earlier) * kMs);
      step.push_back((computed_ms[i] + exposed_ms[i] + rest_ms) * kMs);
    }
    Record record = DdpRecord(strategy, rank, step);
    record.samples["forward_ns"] = forward;
    record.samples["backward_ns"] = backward;
    record.samples["sync_exposed_ns"] = sync;
    record.run_id = run;
    record.config.Set("seed", seed);
    record.facts.Set("launch_set", "20261122T000000-0000");
    ranks.push_back(std::move(record));
  }
  return ranks;
}

// Of the named one of all tables.
Table TableOf(const std::string& name, const std::vector<std::vector<Record>>& measurements) {
  const std::string dir = FreshTestDir("cost");
  std::vector<Record> records;
  for (const std::vector<Record>& ranks : measurements)
    records.insert(records.end(), ranks.begin(), ranks.end());
  WriteLines(dir + "/a.jsonl", records);
  Summary summary = Summarize({.inputs = {dir}, .baseline_row = "", .resamples = {}});
  for (Table& table : summary.report.tables) {
    if (table.name() == name) return std::move(table);
  }
  throw std::out_of_range(name);
}
Table DdpTableOf(const std::vector<std::vector<Record>>& measurements) {
  return TableOf("ddp", measurements);
}

const std::vector<int64_t> kNone = {20, 22, 24, 20, 22, 24, 20, 22, 24, 20, 22, 24};

std::vector<int64_t> Plus(std::vector<int64_t> values, int64_t more) {
  for (int64_t& value : values) value += more;
  return values;
}

TEST(CostTest, PartsAddUpToWhatTheStrategyCosts) {
  const Table table = DdpTableOf({Ranks("none", kNone, Repeat(0, 12), 2),
                                  Ranks("core", Plus(kNone, 7), {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}, 5)});
  EXPECT_NEAR(Number(table, 1, "sync_cost (s)"), 12e-3, 1e-12);
  EXPECT_NEAR(Number(table, 1, "exposed (s)"), 2e-3, 1e-12);
  EXPECT_NEAR(Number(table, 1, "tax (s)"), 7e-3, 1e-12);
  EXPECT_NEAR(Number(table, 1, "rest (s)"), 3e-3, 1e-12);
  EXPECT_NEAR(Number(table, 1, "fraction_cost"), 12.0 / 36, 1e-12);
  EXPECT_NEAR(Number(table, 1, "skew (s)"), 4e-3, 1e-12);
  // The published column has the early rank's wait.
  EXPECT_NEAR(Number(table, 1, "time_per_sync"), 6e-3, 1e-12);
  // In every round the same, whatever the machine does.
  EXPECT_NEAR(Number(table, 1, "tax_low (s)"), 7e-3, 1e-9);
  EXPECT_LT(Number(table, 1, "exposed_low (s)"), 1.6e-3);
  EXPECT_GT(Number(table, 1, "exposed_high (s)"), 2.4e-3);
  EXPECT_GT(Number(table, 1, "exposed_low (s)"), 1e-3);
  for (const char* const column : {"sync_cost (s)", "exposed (s)", "tax (s)", "rest (s)", "fraction_cost"}) {
    EXPECT_TRUE(std::isnan(Number(table, 0, column))) << column;
  }
}

TEST(CostTest, WithoutTheFloorANoteSaysHowToGetIt) {
  const Table table = DdpTableOf({Ranks("core", kNone, Repeat(3, 12), 2)});
  for (const char* const column : {"sync_cost (s)", "tax (s)", "rest (s)", "fraction_cost"}) {
    EXPECT_TRUE(std::isnan(Number(table, 0, column))) << column;
  }
  EXPECT_NEAR(Number(table, 0, "exposed (s)"), 3e-3, 1e-12);
  EXPECT_THAT(table.notes(), Contains(HasSubstr("need `none` in the same run")));
}

// An interrupted run: `none` took one step more.
TEST(CostTest, OnlyRoundsThatBothHaveArePaired) {
  const Table table =
      DdpTableOf({Ranks("none", {20, 20, 1000}, Repeat(0, 3), 2), Ranks("core", {25, 25}, {1, 1}, 2)});
  EXPECT_NEAR(Number(table, 1, "sync_cost (s)"), 6e-3, 1e-12);
  EXPECT_NEAR(Number(table, 1, "tax (s)"), 5e-3, 1e-12);
}

TEST(CostTest, LaunchesOfASetAreOneRow) {
  std::vector<std::vector<Record>> measurements;
  for (const auto& [run, seed, tax_ms] :
       {std::tuple{"20261122T000000-0000", 0, 5}, std::tuple{"b", 1, 6}, std::tuple{"c", 2, 10}}) {
    measurements.push_back(Ranks("none", kNone, Repeat(0, 12), 2, run, seed));
    measurements.push_back(Ranks("core", Plus(kNone, tax_ms), Repeat(0, 12), 2, run, seed));
  }
  const Table table = DdpTableOf(measurements);
  ASSERT_EQ(table.num_rows(), 2u);
  EXPECT_EQ(Number(table, 1, "steps"), 36);
  EXPECT_EQ(Text(table, 1, "run"), "20261122T000000-0000");
  EXPECT_EQ(table.text(1, "flags").find("one-launch"), std::string::npos);
  EXPECT_NEAR(Number(table, 1, "tax (s)"), 7e-3, 1e-12);
  // Within a launch nothing varies; between launches it does.
  EXPECT_LT(Number(table, 1, "tax_low (s)"), 1e-3);
  EXPECT_GT(Number(table, 1, "tax_high (s)"), 13e-3);
  EXPECT_NE(DdpTableOf({measurements[0], measurements[1]}).text(1, "flags").find("one-launch"),
            std::string::npos);
}

TEST(CostTest, ASentenceSaysWhatIsShown) {
  const std::vector<int64_t> little = {3, 5, 4, 3, 5, 4, 3, 5, 4, 3, 5, 4};
  const Table table = DdpTableOf({Ranks("none", kNone, Repeat(0, 12), 2), Ranks("core", kNone, little, 2),
                                  Ranks("naive", kNone, Plus(little, 20), 2)});
  EXPECT_THAT(table.findings(),
              Contains(::testing::MatchesRegex(
                  "Of a step, synchronisation costs 1[0-9] to 1[0-9] % under core and 4[0-9] to "
                  "5[0-9] % under naive\\.")));
  EXPECT_TRUE(table.marked(1, table.column("strategy")));
  EXPECT_FALSE(table.marked(2, table.column("strategy")));
}

TEST(CostTest, SentencesSayWhatABackendCosts) {
  std::vector<std::vector<Record>> measurements;
  for (const auto& [backend, cost_ms] : {std::pair{"gloo", 20}, std::pair{"shm", 2}}) {
    for (const auto& [strategy, more_ms] :
         {std::pair{"none", 0}, std::pair{"core", cost_ms}, std::pair{"naive", cost_ms + 1}}) {
      std::vector<Record> ranks = Ranks(strategy, Plus(kNone, more_ms), Repeat(0, 12), 2, backend);
      for (Record& rank : ranks) {
        rank.config.Set("backend", backend);
        rank.samples["communication_cpu_ns"] = Repeat(more_ms * kMs, 12);
      }
      measurements.push_back(std::move(ranks));
    }
  }
  EXPECT_THAT(
      DdpTableOf(measurements).findings(),
      IsSupersetOf({"Under core synchronisation costs 0.020 to 0.020 s over gloo, 0.002 to 0.002 s over shm.",
                    "Its communication takes, per step and rank, of the processor 0.020 s over gloo, "
                    "0.002 s over shm."}));
  // A second launch set over gloo: which of the two is meant?
  for (const auto& [strategy, more_ms] : {std::pair{"none", 0}, std::pair{"core", 9}}) {
    measurements.push_back(Ranks(strategy, Plus(kNone, more_ms), Repeat(0, 12), 2, "again"));
    for (Record& rank : measurements.back()) rank.facts.Set("launch_set", "again");
  }
  EXPECT_THAT(DdpTableOf(measurements).findings(), Not(Contains(HasSubstr("over shm"))));
}

TEST(CostTest, WhatTheMachineGotDone) {
  std::vector<Record> ranks = Ranks("core", Repeat(40, 4), Repeat(8, 4), 2);  // 50 ms
  for (Record& rank : ranks) {
    rank.facts.Set("tokens_per_step", 100);
    rank.facts.Set("flops_per_step", 1e9);
    rank.facts.Set("peak_flops_per_second", 80e9);
    rank.samples["compute_cpu_ns"] = Repeat((rank.rank == 0 ? 40 : 44) * kMs, 4);
    rank.samples["communication_cpu_ns"] = Repeat(6 * kMs, 4);
  }
  const Table table = DdpTableOf({ranks});
  EXPECT_NEAR(Number(table, 0, "tokens/s"), 2000, 1e-9);
  EXPECT_TRUE(std::isnan(Number(table, 0, "images/s")));
  EXPECT_NEAR(Number(table, 0, "GFLOP/s"), 40, 1e-9);
  EXPECT_NEAR(Number(table, 0, "share_of_peak"), 0.5, 1e-12);
  EXPECT_NEAR(Number(table, 0, "compute_cpu (s)"), 42e-3, 1e-12);
  EXPECT_NEAR(Number(table, 0, "communication_cpu (s)"), 6e-3, 1e-12);
}

// Of two buckets the second ends 8 ms after the last rank has computed.
TEST(CostTest, BucketsHaveATable) {
  std::vector<Record> ranks = Ranks("core", {40, 40}, {8, 8}, 2);
  for (Record& rank : ranks) {
    const auto twice = [](int64_t first_ms, int64_t second_ms) {
      return std::vector<int64_t>{first_ms * kMs, second_ms * kMs, first_ms * kMs, second_ms * kMs};
    };
    rank.moments = {{"ready_ns", twice(10, 36 + 4 * rank.rank)},
                    {"issued_ns", twice(0, 0)},
                    {"started_ns", twice(1, 1)},
                    {"ended_ns", twice(9, 11 - 4 * rank.rank)}};
  }
  const Measurement measurement = CombineRanks(std::move(ranks));
  const std::unique_ptr<TableBuilder> builder = MakeDdpTable({});
  builder->Add({measurement, measurement});
  std::vector<Table> tables;
  builder->Finish(&tables);
  const auto table = std::ranges::find(tables, "buckets", &Table::name);
  ASSERT_NE(table, tables.end());
  ASSERT_EQ(table->num_rows(), 2u);
  EXPECT_EQ(Number(*table, 0, "bytes"), 1000);
  EXPECT_EQ(Number(*table, 0, "exposed (s)"), 0);
  EXPECT_NEAR(Number(*table, 1, "ready (s)"), 40e-3, 1e-12);
  EXPECT_NEAR(Number(*table, 1, "waiting (s)"), 2e-3, 1e-12);  // 4 ms of rank 0
  EXPECT_NEAR(Number(*table, 1, "moving (s)"), 8e-3, 1e-12);
  EXPECT_NEAR(Number(*table, 1, "exposed (s)"), 8e-3, 1e-12);
  EXPECT_EQ(table->findings()[0],
            "The step waits longest for bucket 1 of core: 8 ms after the last rank had computed.");
  EXPECT_NEAR(Number(tables[0], 0, "comm_waiting (s)"), 4e-3, 1e-12);
  EXPECT_NEAR(Number(tables[0], 0, "comm_moving (s)"), 18e-3, 1e-12);
}

// From the same code.
TEST(CostTest, CompareHasTheBucketsTooAndWhatCommunicationIsMadeOf) {
  std::vector<Record> ranks = {CompareRecord("core", 3, 0, Repeat(100 * kMs, 2)),
                               CompareRecord("core", 3, 1, Repeat(100 * kMs, 2))};
  for (Record& rank : ranks) {
    rank.buckets = {{1000, 2}};
    for (const auto& [name, ms] :
         {std::pair{"ready_ns", 50 + rank.rank}, std::pair{"issued_ns", int64_t{0}},
          std::pair{"started_ns", int64_t{1}}, std::pair{"ended_ns", 19 - rank.rank}}) {
      rank.moments[name] = Repeat(ms * kMs, 2);
    }
  }
  const Measurement measurement = CombineRanks(std::move(ranks));
  const std::unique_ptr<TableBuilder> builder = MakeCompareTable({});
  builder->Add({measurement, measurement});
  std::vector<Table> tables;
  builder->Finish(&tables);
  const auto buckets = std::ranges::find(tables, "compare_buckets", &Table::name);
  ASSERT_NE(buckets, tables.end());
  ASSERT_EQ(buckets->num_rows(), 1u);  // one for all phases
  EXPECT_NEAR(Number(*buckets, 0, "moving (s)"), 19e-3, 1e-12);
  const auto rows = std::ranges::find(tables, "compare", &Table::name);
  ASSERT_NE(rows, tables.end());
  EXPECT_NEAR(Number(*rows, 0, "comm_waiting (ms)"), 1, 1e-9);
  EXPECT_NEAR(Number(*rows, 0, "comm_moving (ms)"), 19, 1e-9);
  EXPECT_EQ(tables[0].section_title(6), "DDP: communication, ms");
  EXPECT_NEAR(Number(tables[0], 0, "comm_moving (ms)"), 19, 1e-9);
}

TEST(CostTest, APeersFloorIsItsOwn) {
  EXPECT_EQ(bench::FloorOf("core"), "none");
  EXPECT_EQ(bench::FloorOf("pytorch_ddp"), "pytorch_none");
  EXPECT_EQ(bench::FloorOf("pytorch_ddp_view_compiled"), "pytorch_none_compiled");
}

}  // namespace
}  // namespace gradsync::tools
