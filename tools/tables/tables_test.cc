#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/records/test_records.h"
#include "tools/tables/builder.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Table> TablesOf(std::unique_ptr<TableBuilder> builder,
                            const std::vector<std::pair<Measurement, Measurement>>& measurements) {
  for (const auto& [measurement, baseline] : measurements) builder->Add({measurement, baseline});
  std::vector<Table> tables;
  builder->Finish(&tables);
  return tables;
}

std::vector<std::string> FirstNames(const Table& table, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(table.columns()[i].name);
  return names;
}

// 1 MiB in 10, 20, 30 ms on rank 0, and 26, 20, 10 ms on rank 1.
Measurement OneMiB() {
  return CombineRanks({AllReduceRecord(1 << 20, 0, {10 * kMs, 20 * kMs, 30 * kMs}),
                       AllReduceRecord(1 << 20, 1, {26 * kMs, 20 * kMs, 10 * kMs})});
}

TEST(AllReduceTableTest, HasTheReferencesColumnsFirst) {
  const Measurement measurement = OneMiB();
  const std::vector<Table> tables = TablesOf(MakeAllReduceTable({}), {{measurement, measurement}});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].name(), "all_reduce");
  EXPECT_THAT(FirstNames(tables[0], 4), ElementsAre("backend", "data_size (MB)", "time_taken", "std_time"));
}

TEST(AllReduceTableTest, ComputesTheReferencesNumbersAndTheFairOnes) {
  const Measurement measurement = OneMiB();
  const std::vector<Table> tables = TablesOf(MakeAllReduceTable({}), {{measurement, measurement}});
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  EXPECT_EQ(Text(table, 0, "backend"), "gloo");
  EXPECT_EQ(Number(table, 0, "data_size (MB)"), 1);
  // Rank 0: mean 20 ms, squares 100 + 0 + 100. Rank 1: mean 56 / 3 ms, squares (22^2 + 4^2 + 26^2) / 9.
  EXPECT_DOUBLE_EQ(Number(table, 0, "time_taken"), (20 + 56.0 / 3) / 2 * 1e-3);
  EXPECT_NEAR(Number(table, 0, "std_time"), (std::sqrt(200.0 / 3) + std::sqrt(1176.0 / 27)) / 2 * 1e-3,
              1e-15);
  // The slowest ranks: 26, 20, 30 ms.
  const double time_max = 0.076 / 3;
  EXPECT_DOUBLE_EQ(Number(table, 0, "time_max (s)"), time_max);
  EXPECT_DOUBLE_EQ(Number(table, 0, "algbw (GB/s)"), 1048576 / time_max / 1e9);
  EXPECT_DOUBLE_EQ(Number(table, 0, "busbw (GB/s)"), 1048576 / time_max / 1e9);  // 2 (2 - 1) / 2 = 1
  EXPECT_DOUBLE_EQ(Number(table, 0, "p50 (s)"), 0.026);
  EXPECT_DOUBLE_EQ(Number(table, 0, "p95 (s)"), 0.0296);   // index 1.9 of 20 26 30
  EXPECT_DOUBLE_EQ(Number(table, 0, "p99 (s)"), 0.02992);  // index 1.98
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p95 (s)")));
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p99 (s)")));
  EXPECT_EQ(Number(table, 0, "wrong elements"), 0);
  EXPECT_EQ(Number(table, 0, "steps"), 3);
  EXPECT_EQ(Text(table, 0, "run"), "20261121T101500-4f2a");
  EXPECT_EQ(Text(table, 0, "flags"), "one-launch n<10 n<20 n<100");
  EXPECT_EQ(FlagsIn({table}), (std::set<Flag>{Flag::kOneLaunch, Flag::kTooFewForInterval, Flag::kTooFewForP95,
                                              Flag::kTooFewForP99}));
}

TEST(AllReduceTableTest, AHundredSamplesNeedNoMark) {
  const Measurement measurement = CombineRanks(
      {AllReduceRecord(1 << 20, 0, Repeat(kMs, 100)), AllReduceRecord(1 << 20, 1, Repeat(kMs, 100))});
  const std::vector<Table> tables = TablesOf(MakeAllReduceTable({}), {{measurement, measurement}});
  EXPECT_FALSE(tables[0].marked(0, ColumnOf(tables[0], "p99 (s)")));
  EXPECT_EQ(Text(tables[0], 0, "flags"), "one-launch");
}

Table DdpTableOf(const Measurement& measurement, const Measurement& baseline) {
  std::vector<Table> tables;
  const std::unique_ptr<TableBuilder> builder = MakeDdpTable({});
  builder->Add({measurement, baseline});
  builder->Finish(&tables);
  return std::move(tables.at(0));
}

TEST(DdpTableTest, HasTheReferencesColumnsFirst) {
  const Measurement naive = Ddp("naive", 1);
  const Table table = DdpTableOf(naive, naive);
  EXPECT_EQ(table.name(), "ddp");
  EXPECT_THAT(FirstNames(table, 8),
              ElementsAre("model_size", "backend", "time_per_step", "std_time_step", "time_per_sync",
                          "std_time_sync", "fraction_sync", "strategy"));
}

TEST(DdpTableTest, ComputesPhasesAndPercentiles) {
  const Measurement naive = Ddp("naive", 1);
  const Table table = DdpTableOf(naive, naive);
  EXPECT_EQ(Text(table, 0, "model_size"), "small");
  EXPECT_EQ(Text(table, 0, "strategy"), "naive");
  EXPECT_EQ(Number(table, 0, "batch_size"), 2);
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
  EXPECT_EQ(Number(table, 0, "sent (B)"), 3000);
}

TEST(DdpTableTest, ShowsMemoryWhereAStrategyHadItToItself) {
  const auto with_strategies = [](int64_t strategies) {
    const Measurement measurement = Ddp("core", 1, [strategies](Record& rank) {
      rank.facts.Set("num_parameters", 1000);
      rank.facts.Set("peak_bytes_in_use", 16500);
      rank.facts.Set("strategies_in_memory", strategies);
    });
    return Number(DdpTableOf(measurement, measurement), 0, "peak_memory (B/param)");
  };
  EXPECT_EQ(with_strategies(1), 16.5);
  EXPECT_TRUE(std::isnan(with_strategies(2)));
  EXPECT_TRUE(std::isnan(with_strategies(0)));
}

// Whatever is measured, its table says so of ranks that share a GPU.
TEST(FlagsTest, EveryTableNamesASharedGpu) {
  const auto on_one_gpu = [](Record first, Record second) {
    for (Record* const rank : {&first, &second}) rank->facts.Set("gpu_uuid", "GPU-1");
    return CombineRanks({first, second});
  };
  const std::vector<int64_t> times = Repeat(kMs, 100);
  const auto ddp = [&](int64_t batch_size) {
    Record first = DdpRecord("core", 0, times), second = DdpRecord("core", 1, times);
    for (Record* const rank : {&first, &second}) rank->config.Set("batch_size", batch_size);
    return on_one_gpu(first, second);
  };
  const auto expect_flag = [](std::unique_ptr<TableBuilder> builder, const std::vector<Measurement>& rows) {
    std::vector<std::pair<Measurement, Measurement>> measurements;
    for (const Measurement& row : rows) measurements.emplace_back(row, row);
    const std::string_view name = builder->experiment();
    bool is_said = false;
    for (const Table& table : TablesOf(std::move(builder), measurements)) {
      // People may see the rows in another shape; the flags are where machines look.
      if (table.audience() == Audience::kPeople) continue;
      EXPECT_THAT(Text(table, 0, "flags"), HasSubstr("shared-gpu:2")) << table.name();
      is_said = true;
    }
    EXPECT_TRUE(is_said) << name;
  };
  expect_flag(MakeDdpTable({}), {ddp(2)});
  expect_flag(MakeGridTable({}), {ddp(2), ddp(4)});
  expect_flag(MakeAllReduceTable({}),
              {on_one_gpu(AllReduceRecord(1 << 20, 0, times), AllReduceRecord(1 << 20, 1, times))});
  expect_flag(MakeCompareTable({}),
              {on_one_gpu(CompareRecord("core", 3, 0, times), CompareRecord("core", 3, 1, times))});
}

TEST(DdpTableTest, ComparesWithTheBaseline) {
  const Measurement naive = Ddp("naive", 1);
  const Table self = DdpTableOf(naive, naive);
  EXPECT_EQ(Number(self, 0, "delta (%)"), 0);
  EXPECT_TRUE(std::isnan(Number(self, 0, "ci95_low (%)")));
  // In every round twice as long: nothing is left to doubt.
  const Table flat = DdpTableOf(Ddp("flat", 2), naive);
  EXPECT_DOUBLE_EQ(Number(flat, 0, "delta (%)"), 100);
  EXPECT_DOUBLE_EQ(Number(flat, 0, "ci95_low (%)"), 100);
  EXPECT_DOUBLE_EQ(Number(flat, 0, "ci95_high (%)"), 100);
  EXPECT_EQ(Text(flat, 0, "baseline"), "naive");
  EXPECT_THAT(flat.notes(), Contains(HasSubstr("bootstrap of rounds (2000 resamples)")));
}

// What drifted in between looks like a difference, and no number of steps tells.
TEST(DdpTableTest, StepsInBlocksHaveNoInterval) {
  const auto in_blocks = [](Record& rank) { rank.config.Set("order", "blocks"); };
  const Table table = DdpTableOf(Ddp("flat", 2, in_blocks), Ddp("naive", 1, in_blocks));
  EXPECT_DOUBLE_EQ(Number(table, 0, "delta (%)"), 100);
  EXPECT_TRUE(std::isnan(Number(table, 0, "ci95_low (%)")));
  EXPECT_TRUE(std::isnan(Number(table, 0, "ci95_high (%)")));
  EXPECT_THAT(Text(table, 0, "flags"), HasSubstr("in-blocks"));
}

std::string Equality(std::string_view strategy, const std::function<void(Record&)>& change) {
  const Measurement measurement = Ddp(strategy, 1, change);
  return Text(DdpTableOf(measurement, measurement), 0, "equals single process");
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
  const Measurement measurement = Ddp("pytorch_ddp", 1, [](Record& rank) {
    rank.samples.erase("sync_exposed_ns");
    rank.samples.erase("comm_busy_ns");
  });
  const Table table = DdpTableOf(measurement, measurement);
  for (const char* column : {"time_per_sync", "std_time_sync", "fraction_sync", "comm_busy (s)", "overlap"}) {
    EXPECT_TRUE(std::isnan(Number(table, 0, column))) << column;
  }
}

// 3,000 bytes in 0.3 x 1 ns: what cannot be is flagged, whichever time shows it.
TEST(DdpTableTest, FlagsACommunicationThatIsTooFast) {
  const auto faster = [](Record& rank) {
    rank.facts.Set("gradient_bytes", int64_t{1000000000});
    rank.buckets = {{1000000000, 1}};
  };
  const Measurement measurement = Ddp("naive", 1, faster);
  // 10^9 bytes in 16.5 ms.
  EXPECT_THAT(Text(DdpTableOf(measurement, measurement), 0, "flags"), HasSubstr("too-fast:61GB/s"));
  const Measurement without_busy = Ddp("naive", 1, [&](Record& rank) {
    faster(rank);
    rank.samples.erase("comm_busy_ns");
  });
  EXPECT_THAT(Text(DdpTableOf(without_busy, without_busy), 0, "flags"), HasSubstr("too-fast:121GB/s"));
}

std::vector<Table> GridOf(const std::vector<Measurement>& measurements) {
  std::vector<std::pair<Measurement, Measurement>> pairs;
  for (const Measurement& measurement : measurements) pairs.emplace_back(measurement, measurement);
  return TablesOf(MakeGridTable({}), pairs);
}

TEST(GridTableTest, OnePlaceIsNoGrid) {
  EXPECT_TRUE(GridOf({AtPlace("naive", 2, 128, 1), AtPlace("flat", 2, 128, 1)}).empty());
  EXPECT_TRUE(GridOf({AtPlace("naive", 2, 128, 1, "run1"), AtPlace("naive", 2, 256, 1, "run2")}).empty());
}

// ResNet-50 has no sequences: places differ by batch alone.
TEST(GridTableTest, PlacesWithoutASequenceAreTheSame) {
  const auto images = [](std::string_view strategy, int64_t batch_size) {
    Measurement measurement = AtPlace(strategy, batch_size, 128, 1);
    measurement.record.config.Set("seq_len", std::numeric_limits<double>::quiet_NaN());
    return measurement;
  };
  EXPECT_TRUE(GridOf({images("naive", 2), images("flat", 2)}).empty());
  EXPECT_FALSE(GridOf({images("naive", 2), images("naive", 4)}).empty());
}

TEST(GridTableTest, PutsStrategiesSideBySide) {
  const std::vector<Table> tables =
      GridOf({AtPlace("naive", 4, 128, 2), AtPlace("flat", 4, 128, 4), AtPlace("naive", 2, 256, 1),
              AtPlace("naive", 2, 128, 1, "run2")});
  ASSERT_EQ(tables.size(), 2u);
  const Table& people = tables[0];
  EXPECT_EQ(people.audience(), Audience::kPeople);
  ASSERT_EQ(people.num_rows(), 2u);
  EXPECT_THAT(FirstNames(people, 2), ElementsAre("local_bs", "seq_len"));
  EXPECT_EQ(Number(people, 0, "local_bs"), 2);
  EXPECT_EQ(Number(people, 1, "seq_len"), 128);
  const size_t first = ColumnOf(people, "naive");
  EXPECT_EQ(people.columns()[first + 1].name, "flat");
  EXPECT_DOUBLE_EQ(people.number(1, first), 0.055);
  EXPECT_DOUBLE_EQ(people.number(1, first + 1), 0.110);
  EXPECT_TRUE(std::isnan(people.number(0, first + 1)));
  EXPECT_DOUBLE_EQ(people.number(1, first + 2), 0.0165);  // total time grad all reduce of naive
  EXPECT_DOUBLE_EQ(people.number(1, first + 4), 0.3);     // its ratio

  const Table& machines = tables[1];
  EXPECT_EQ(machines.name(), "grid");
  EXPECT_EQ(machines.audience(), Audience::kMachines);
  EXPECT_THAT(FirstNames(machines, 6),
              ElementsAre("local_bs", "seq_len", "total time train", "total time grad all reduce",
                          "ratio grad all reduce to train time", "strategy"));
  ASSERT_EQ(machines.num_rows(), 3u);
  EXPECT_EQ(Text(machines, 1, "strategy"), "flat");
  EXPECT_DOUBLE_EQ(Number(machines, 1, "total time train"), 0.110);
  EXPECT_DOUBLE_EQ(Number(machines, 1, "ratio grad all reduce to train time"), 0.3);
}

TEST(GridTableTest, AStrategyThatIsThereTwiceHidesNeither) {
  const std::vector<Table> tables =
      GridOf({AtPlace("core", 2, 128, 1), AtPlace("core", 2, 128, 2), AtPlace("core", 4, 128, 1)});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].audience(), Audience::kAll);
  EXPECT_EQ(tables[0].num_rows(), 3u);
}

}  // namespace
}  // namespace gradsync::tools
