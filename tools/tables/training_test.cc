#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A trimmed mean holds none, a plain one does.
TEST(DdpTableTest, OutliersMarkTheMeansThatHoldThem) {
  std::vector<double> steps = Wobble(100, 24, 1);
  steps[7] = 900;
  const Tabled t({{Steady("core", steps), Steady("naive", Wobble(100, 24, 2))}});
  const Table& table = t.table("ddp");
  for (const char* const mean : {"time_per_step", "std_time_step"}) {
    EXPECT_TRUE(table.marked(0, ColumnOf(table, mean))) << mean;
    EXPECT_FALSE(table.marked(1, ColumnOf(table, mean))) << mean;
  }
  EXPECT_FALSE(table.marked(0, ColumnOf(table, "step (s)")));
}

Measurement Published(std::string_view run, const std::string& samples) {
  Record record = DdpRecord("naive", 0, {});
  record.samples.clear();
  record.run_id = run;
  record.published[samples].Set("mean_ns", 20.0 * kMs);
  record.published[samples].Set("p90_ns", 30.0 * kMs);
  record.published[samples].Set("p95_ns", 40.0 * kMs);
  return CombineRanks({record});
}

// Machines see one table all the same.
TEST(DdpTableTest, PeopleSeeATableForEachRunAndOneForAllThatWasPublished) {
  const Tabled t({{Published("a", "step_ns")}, {Ddp("core", 1)}, {Published("b", "step_ns")}});
  std::vector<size_t> rows;
  for (const Table& table : t.tables) {
    if (table.name() != "ddp" || table.audience() != Audience::kPeople) continue;
    rows.push_back(table.num_rows());
    EXPECT_THAT(table.title(), ::testing::ContainsRegex("synchronisation: .+"));
  }
  EXPECT_THAT(rows, ElementsAre(2u, 1u));
  const Table& all = t.tables[2];
  EXPECT_EQ(all.num_rows(), 3u);
  EXPECT_NEAR(Number(all, 0, "p90_step (s)"), 0.030, 1e-9);
  EXPECT_NEAR(Number(all, 0, "p95_step (s)"), 0.040, 1e-9);
  EXPECT_TRUE(std::isnan(Number(all, 0, "p99_step (s)")));
}

TEST(DdpTableTest, PublishedPhasesAloneAreNoRun) {
  const Tabled t({{Ddp("core", 1)}, {Published("a", "forward_ns")}});
  EXPECT_EQ(t.table("ddp").audience(), Audience::kAll);
  EXPECT_EQ(t.table("ddp").num_rows(), 1u);
}

TEST(DdpTableTest, TellsMachinesTheCell) {
  const Tabled t({{AtPlace("core", 2, 64, 1)}, {AtPlace("core", 4, 64, 1)}});
  const Table& table = t.table("ddp");
  EXPECT_EQ(Text(table, 0, "setting"), "batch 2");
  EXPECT_EQ(Text(table, 1, "setting"), "batch 4");
}

TEST(DdpTableTest, SaysOnceWhatARunHasInCommon) {
  const Tabled t({{Ddp("naive", 1), Ddp("core", 1)}});
  const Table& table = t.table("ddp");
  for (const char* const name : {"device", "world_size", "threads_per_rank", "batch_size", "run"})
    EXPECT_TRUE(table.columns()[ColumnOf(table, name)].said_once) << name;
}

TEST(DdpTableTest, ComputesPhasesAndPercentiles) {
  // A strategy may send more or less than its buckets, which have 3000 bytes.
  const Tabled t({{Ddp("naive", 1, [](Record& rank) {
    rank.facts.Set("sent_bytes_per_step", bench::Value(2000.0));
    rank.facts.Set("tokens_per_step", bench::Value(640.0));
  })}});
  const Table& table = t.table("ddp");
  EXPECT_EQ(Text(table, 0, "model_size"), "small");
  EXPECT_EQ(Text(table, 0, "strategy"), "naive");
  EXPECT_EQ(Text(table, 0, "variant"), "naive@gloo");
  EXPECT_EQ(Number(table, 0, "batch_size"), 2);
  EXPECT_EQ(Number(table, 0, "tokens"), 640);
  EXPECT_DOUBLE_EQ(Number(table, 0, "time_per_step"), 0.0275);
  // Squares of -7.5, -7.5, 2.5, 12.5 add up to 275.
  EXPECT_DOUBLE_EQ(Number(table, 0, "std_time_step"), std::sqrt(275.0 / 4) * 1e-3);
  EXPECT_DOUBLE_EQ(Number(table, 0, "time_per_sync"), 0.00825);
  EXPECT_DOUBLE_EQ(Number(table, 0, "std_time_sync"), 0.3 * std::sqrt(275.0 / 4) * 1e-3);
  EXPECT_DOUBLE_EQ(Number(table, 0, "fraction_sync"), 0.3);
  EXPECT_DOUBLE_EQ(Number(table, 0, "forward (s)"), 0.0055);
  EXPECT_DOUBLE_EQ(Number(table, 0, "backward (s)"), 0.011);
  EXPECT_DOUBLE_EQ(Number(table, 0, "optimizer (s)"), 0.00275);
  EXPECT_DOUBLE_EQ(Number(table, 0, "comm_busy (s)"), 0.0165);
  EXPECT_DOUBLE_EQ(Number(table, 0, "overlap"), 0.5);
  EXPECT_DOUBLE_EQ(Number(table, 0, "median_step (s)"), 0.025);
  EXPECT_DOUBLE_EQ(Number(table, 0, "p90_step (s)"), 0.037);   // index 2.7 of 20 20 30 40
  EXPECT_DOUBLE_EQ(Number(table, 0, "p95_step (s)"), 0.0385);  // index 2.85
  EXPECT_DOUBLE_EQ(Number(table, 0, "p99_step (s)"), 0.0397);  // index 2.97
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p95_step (s)")));
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p99_step (s)")));
  EXPECT_EQ(Number(table, 0, "collectives"), 2);
  EXPECT_EQ(Number(table, 0, "sent (B)"), 2000);
}

TEST(DdpTableTest, PeopleSeeEightColumns) {
  const Tabled t({{Steady("none", Wobble(90, 24, 0)), Steady("core", Wobble(100, 24, 1)),
                   Steady("naive", Wobble(130, 24, 2))}});
  const Table& table = t.table("ddp");
  std::vector<std::string> names;
  for (const Column& column : table.columns()) {
    if (column.audience != Audience::kMachines && !column.said_once && column.section <= 1)
      names.push_back(column.name);
  }
  EXPECT_THAT(names,
              ElementsAre("variant", "step (s)", "delta (%)", "sync_cost (s)", "sent (MB)", "warnings"));
  // Each estimate with its interval.
  EXPECT_LT(Number(table, 2, "delta_low (%)"), 30);
  EXPECT_GT(Number(table, 2, "delta_high (%)"), 30);
  EXPECT_LT(Number(table, 1, "sync_cost_low (s)"), 0.010);
  EXPECT_GT(Number(table, 1, "sync_cost_high (s)"), 0.010);
  EXPECT_EQ(Text(table, 2, "baseline"), "core@gloo");
}

TEST(DdpTableTest, ShowsMemoryOfEachVariant) {
  const Tabled t({{Ddp("core", 1,
                       [](Record& rank) {
                         rank.facts.Set("num_parameters", 1000);
                         rank.facts.Set("peak_bytes_in_use", 16500);
                       }),
                   Ddp("naive", 1)}});
  EXPECT_EQ(Number(t.table("ddp"), 0, "peak_memory (B/param)"), 16.5);
  EXPECT_TRUE(std::isnan(Number(t.table("ddp"), 1, "peak_memory (B/param)")));
}

std::string Equality(std::string_view strategy, const Change& change) {
  const Tabled t({{Ddp(strategy, 1, change)}});
  return Text(t.table("ddp"), 0, "equals single process");
}

TEST(DdpTableTest, SaysWhetherGradientsEqualledTheReference) {
  EXPECT_EQ(Equality("core", {}), "yes");
  for (const char* const floor : {"none", "pytorch_none"}) {
    EXPECT_EQ(Equality(floor, [](Record& rank) { rank.checks.Set("grads_equal", false); }), "floor: no sync");
  }
  EXPECT_EQ(Equality("core", [](Record& rank) { rank.checks.Set("reference", "none"); }), "not checked");
  EXPECT_EQ(Equality("core", [](Record& rank) { rank.checks = {}; }), "not checked");
  EXPECT_EQ(Equality("core",
                     [](Record& rank) {
                       rank.checks.Set("grads_equal", rank.rank != 1);
                       rank.checks.Set("grad_rel_error", 0.0012 * static_cast<double>(rank.rank));
                     }),
            "no (1.2e-03)");
  EXPECT_EQ(Equality("core",
                     [](Record& rank) {
                       rank.checks.Set("params_equal", false);
                       rank.checks.Set("param_rel_error", 0.5);
                     }),
            "no (parameters 5.0e-01)");
  EXPECT_EQ(Equality("core", [](Record& rank) { rank.checks.Set("replicas_equal", false); }),
            "no (replicas differ)");
}

TEST(DdpTableTest, WithoutATimeTheCellIsEmpty) {
  const Tabled t({{Ddp("pytorch_core", 1, [](Record& rank) {
    rank.samples["backward_and_sync_ns"] = rank.samples["backward_ns"];
    rank.samples.erase("backward_ns");
    rank.samples.erase("sync_wait_ns");
    rank.samples.erase("comm_busy_ns");
  })}});
  for (const char* column : {"time_per_sync", "std_time_sync", "fraction_sync", "comm_busy (s)", "overlap"}) {
    EXPECT_TRUE(std::isnan(Number(t.table("ddp"), 0, column))) << column;
  }
}

// What cannot be is flagged, whichever time shows it.
TEST(DdpTableTest, WarnsOfACommunicationThatIsTooFast) {
  const auto faster = [](Record& rank) {
    rank.facts.Set("gradient_bytes", int64_t{1000000000});
    rank.facts.Set("sent_bytes_per_step", 1e9);
  };
  // 10^9 bytes in 16.5 ms.
  const Tabled busy({{Ddp("naive", 1, faster)}});
  EXPECT_THAT(Text(busy.table("ddp"), 0, "warnings"), HasSubstr("too-fast:61GB/s"));
  const Tabled without_busy({{Ddp("naive", 1, [&](Record& rank) {
    faster(rank);
    rank.facts.Set("overlaps", false);
    rank.samples.erase("comm_busy_ns");
  })}});
  EXPECT_THAT(Text(without_busy.table("ddp"), 0, "warnings"), HasSubstr("too-fast:121GB/s"));
  // What a step exposes is no measure where several steps share a collective.
  const Tabled periodic({{Ddp("naive", 1, [&](Record& rank) {
    faster(rank);
    rank.facts.Set("period", 8);
  })}});
  EXPECT_EQ(Text(periodic.table("ddp"), 0, "warnings").find("too-fast"), std::string::npos);
  // What one that overlaps leaves exposed is no measure of what it communicates.
  const Tabled overlap({{Ddp("naive", 1, [&](Record& rank) {
    faster(rank);
    rank.samples.erase("comm_busy_ns");
  })}});
  EXPECT_EQ(Text(overlap.table("ddp"), 0, "warnings").find("too-fast"), std::string::npos);
}

TEST(DdpTableTest, WhatTheMachineGotDone) {
  const Tabled t({{Ddp("core", 1, [](Record& rank) {
    rank.facts.Set("tokens_per_step", 100);
    rank.facts.Set("flops_per_step", 1e9);
    rank.facts.Set("peak_flops_per_second", 80e9);
    rank.samples["compute_cpu_ns"] = Repeat((rank.rank == 0 ? 40 : 44) * kMs, 4);
    rank.samples["others_cpu_ns"] = Repeat(8 * kMs, 4);
    rank.facts.Set("turn_steps", 4);
  })}});
  const Table& table = t.table("ddp");
  EXPECT_NEAR(Number(table, 0, "tokens/s"), 100 / 0.0275, 1e-6);
  EXPECT_TRUE(std::isnan(Number(table, 0, "images/s")));
  EXPECT_NEAR(Number(table, 0, "GFLOP/s"), 2 / 0.0275, 1e-9);
  EXPECT_NEAR(Number(table, 0, "share_of_peak"), 2 / 0.0275 / 80, 1e-12);
  EXPECT_NEAR(Number(table, 0, "others_cpu (s)"), 0.002, 1e-12);
  EXPECT_NEAR(Number(table, 0, "compute_cpu (s)"), 42e-3, 1e-12);
}

Measurement Sized(const char* strategy, int64_t mebi, int64_t factor) {
  const int64_t ms = factor * kMs;
  return CombineRanks({CompareRecord(strategy, mebi, 0, {10 * ms, 20 * ms, 30 * ms, 40 * ms}),
                       CompareRecord(strategy, mebi, 1, {20 * ms, 10 * ms, 30 * ms, 40 * ms})});
}

TEST(SweepTableTest, IsARowForEachPhaseWithThePublishedStatistics) {
  const Tabled t({{Sized("core", 3, 1), Sized("bucketed_sync", 3, 2), Sized("core", 25, 2)}});
  const Table& table = t.table("compare");
  EXPECT_TRUE(table.is_detail());
  ASSERT_EQ(table.num_rows(), 12u);
  EXPECT_EQ(Number(table, 4, "buffer_elements (Mi)"), 3);
  EXPECT_EQ(Text(table, 4, "strategy"), "bucketed_sync");
  EXPECT_EQ(Text(table, 4, "phase"), "forward");
  EXPECT_EQ(Number(table, 4, "bucket_bytes"), 3 << 22);
  EXPECT_EQ(Number(table, 4, "buckets"), 2);
  EXPECT_NEAR(Number(table, 4, "Mean"), 11, 1e-9);  // 0.2 x 55 ms
  EXPECT_NEAR(Number(table, 4, "delta%"), 100, 1e-9);
  EXPECT_NEAR(Number(table, 4, "p99"), 15.88, 1e-9);
  EXPECT_NEAR(Number(table, 4, "delta p99%"), 100, 1e-9);
  EXPECT_TRUE(table.marked(4, ColumnOf(table, "p99")));
  // Each size has its own baseline.
  EXPECT_NEAR(Number(table, 8, "delta%"), 0, 1e-9);
  EXPECT_EQ(Text(table, 8, "baseline"), "core:bucket_elements=25Mi@gloo");
}

}  // namespace
}  // namespace gradsync::tools
