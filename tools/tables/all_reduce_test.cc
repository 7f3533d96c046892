#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// 1 MiB in 10, 20, 30 ms on rank 0, and 26, 20, 10 ms on rank 1.
Measurement OneMiB() {
  return CombineRanks({AllReduceRecord(1 << 20, 0, {10 * kMs, 20 * kMs, 30 * kMs}),
                       AllReduceRecord(1 << 20, 1, {26 * kMs, 20 * kMs, 10 * kMs})});
}

// A bandwidth is so many bytes over the time, and so are the ends of its interval.
TEST(AllReduceTableTest, TheBandwidthHasAnIntervalWhereTheTimeHas) {
  const auto table_of = [](const std::vector<int64_t>& times) {
    return Tabled({{CombineRanks({AllReduceRecord(1 << 20, 0, times), AllReduceRecord(1 << 20, 1, times)})}});
  };
  std::vector<int64_t> times;
  for (int i = 0; i < 20; ++i) times.push_back((10 + i % 5) * kMs);
  const Tabled t = table_of(times), few = table_of({10 * kMs, 11 * kMs});
  const Table& table = t.table("all_reduce");
  const double low = Number(table, 0, "busbw_low (GB/s)"), high = Number(table, 0, "busbw_high (GB/s)");
  EXPECT_NEAR(Number(table, 0, "busbw (GB/s)"), 1048576 / 12e-3 / 1e9, 1e-4);
  EXPECT_GT(low, 1048576 / 13.5e-3 / 1e9);
  EXPECT_LT(low, 1048576 / 12.2e-3 / 1e9);
  EXPECT_GT(high, 1048576 / 11.8e-3 / 1e9);
  EXPECT_LT(high, 1048576 / 10.5e-3 / 1e9);
  EXPECT_TRUE(std::isnan(Number(few.table("all_reduce"), 0, "busbw_low (GB/s)")));
  // An interval that reaches zero.
  times.assign(10, kMs);
  for (size_t i = 0; i < 3; ++i) times[i] = 1000 * kMs;
  EXPECT_TRUE(std::isnan(Number(table_of(times).table("all_reduce"), 0, "busbw_high (GB/s)")));
}

TEST(AllReduceTableTest, ComputesTheReferencesNumbersAndTheFairOnes) {
  const Tabled t({{OneMiB()}});
  const Table& table = t.table("all_reduce");
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
  EXPECT_DOUBLE_EQ(Number(table, 0, "busbw (GB/s)"),
                   1048576 / time_max / 1e9);  // 2 (2 - 1) / 2 = 1; see below
  EXPECT_DOUBLE_EQ(Number(table, 0, "p50 (s)"), 0.026);
  EXPECT_DOUBLE_EQ(Number(table, 0, "p95 (s)"), 0.0296);   // index 1.9 of 20 26 30
  EXPECT_DOUBLE_EQ(Number(table, 0, "p99 (s)"), 0.02992);  // index 1.98
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p95 (s)")));
  EXPECT_TRUE(table.marked(0, ColumnOf(table, "p99 (s)")));
  EXPECT_EQ(Number(table, 0, "wrong elements"), 0);
  EXPECT_EQ(Number(table, 0, "steps"), 3);
  EXPECT_EQ(Text(table, 0, "run"), "20261121T101500-4f2a");
  EXPECT_EQ(Text(table, 0, "warnings"), "one-launch n<10 n<20 n<100");
  EXPECT_EQ(WarningsIn({table}), (std::set<Warning>{Warning::kOneLaunch, Warning::kTooFewForInterval,
                                                    Warning::kTooFewForP95, Warning::kTooFewForP99}));
}

// Two of 24 iterations are disturbed: the mean of all is 9 times as long.
TEST(AllReduceTableTest, TheBusBandwidthIsOfTheTimeBesideIt) {
  std::vector<int64_t> times = Repeat(10000, 24);
  times[3] = times[17] = kMs;
  const Tabled t({{CombineRanks({AllReduceRecord(1 << 20, 0, times), AllReduceRecord(1 << 20, 1, times)})}});
  const Table& table = t.table("all_reduce");
  EXPECT_NEAR(Number(table, 0, "time (s)"), 1e-5, 1e-15);
  EXPECT_NEAR(Number(table, 0, "busbw (GB/s)"), 104.8576, 1e-9);
  EXPECT_NEAR(Number(table, 0, "algbw (GB/s)"), 1048576 / Number(table, 0, "time_max (s)") / 1e9, 1e-9);
  EXPECT_LT(Number(table, 0, "algbw (GB/s)"), 12);
  EXPECT_THAT(t.findings("all_reduce"), HasSubstr("gloo 105 GB/s"));
}

TEST(AllReduceTableTest, PeopleReadSizesInTheirUnits) {
  std::vector<Group> groups;
  for (const int64_t bytes : {8, 64 << 10, 1536 << 10, 1 << 30})
    groups.push_back({CombineRanks({AllReduceRecord(bytes, 0, {kMs}), AllReduceRecord(bytes, 1, {kMs})})});
  const Tabled t(groups);
  const Table& table = t.table("all_reduce");
  std::vector<std::string> sizes;
  for (size_t row = 0; row < groups.size(); ++row)
    sizes.push_back(table.text(row, table.column("data_size")));
  EXPECT_THAT(sizes, ElementsAre("8B", "64KiB", "1536KiB", "1GiB"));
  EXPECT_EQ(table.text(0, table.column("time")), "1.00 ms");
}

// `mean_us` with a wobble of 2 %, of each backend its own, in turn with those of others.
Measurement Transfer(const char* backend, int64_t mebi, double mean_us, size_t count = 24, int64_t wrong = 0,
                     const char* order = "interleaved") {
  std::vector<int64_t> times;
  const int phase = static_cast<int>(mebi) + backend[0];
  for (const double us : Wobble(mean_us, count, phase)) times.push_back(std::llround(1e3 * us));
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(AllReduceRecord(mebi << 20, rank, times));
    record.variant.backend = backend;
    if (*order != 0) record.config.Set("order", order);
    record.checks.Set("wrong_elements", rank == 0 ? wrong : 0);
  }
  return CombineRanks(ranks);
}

TEST(AllReduceSentencesTest, SayWhatAllBackendsReachAtTheLargestSize) {
  const Tabled t({{Transfer("gloo", 1, 4000), Transfer("shm", 1, 100)},
                  {Transfer("gloo", 10, 10000), Transfer("shm", 10, 5000)}});
  EXPECT_THAT(t.findings("all_reduce"),
              ContainsRegex("^Bus bandwidth at 10MiB: gloo 1.0[45][0-9]* GB/s and shm 2.[01][0-9]* GB/s."));
  // What is wrong at the largest size does not count there.
  const Tabled wrong({{Transfer("gloo", 1, 4000), Transfer("shm", 1, 1000)},
                      {Transfer("gloo", 10, 10000), Transfer("shm", 10, 5000, 24, 1)}});
  EXPECT_THAT(wrong.findings("all_reduce"), HasSubstr("Bus bandwidth at 1MiB: gloo "));
}

TEST(AllReduceSentencesTest, ABackendIsFasterWhereThatIsShown) {
  const Tabled t({{Transfer("gloo", 1, 4000), Transfer("shm", 1, 1000)},
                  {Transfer("gloo", 10, 10000), Transfer("shm", 10, 10010)},
                  {Transfer("gloo", 100, 100000), Transfer("shm", 100, 140000)}});
  EXPECT_THAT(t.findings("all_reduce"),
              ContainsRegex("shm against gloo: slower by [0-9.]+ to [0-9.]+ %: 100MiB; faster by 7[0-9.]+ to "
                            "7[0-9.]+ %: 1MiB; equal within [0-9.]+ %: 10MiB\\."));
  const Tabled few({{Transfer("gloo", 1, 4000, 9), Transfer("shm", 1, 1000, 9)}});
  EXPECT_THAT(few.findings("all_reduce"), Not(HasSubstr("faster")));
  EXPECT_THAT(few.findings("all_reduce"), HasSubstr("No verdict. `n<10`"));
}

// A machine that becomes slower does so for backends that take turns: their difference is known far better
// than either.
TEST(AllReduceSentencesTest, DifferencesAreOfOneIteration) {
  const auto drifting = [](const char* backend, double mean_us) {
    Measurement measurement = Transfer(backend, 1, mean_us);
    std::vector<double>& times = measurement.series.find("time_ns")->second.max;
    for (size_t i = 0; i < times.size(); ++i) times[i] *= 1 + static_cast<double>(i);
    return measurement;
  };
  const Tabled t({{drifting("gloo", 1000), drifting("shm", 900)}});
  EXPECT_THAT(t.findings("all_reduce"),
              ContainsRegex("1MiB, against gloo: faster by [0-9.]+ to 1[0-9.]+ %: shm"));
}

// If records do not say that backends took turns, they did not: the machine may have changed between them.
TEST(AllReduceSentencesTest, WithoutTurnsThereIsNoInterval) {
  const Tabled t({{Transfer("gloo", 1, 4000, 24, 0, ""), Transfer("shm", 1, 1000, 24, 0, "")}});
  EXPECT_NEAR(Number(t.table("all_reduce"), 1, "delta (%)"), -75, 1);
  EXPECT_TRUE(std::isnan(Number(t.table("all_reduce"), 1, "delta_low (%)")));
  EXPECT_THAT(t.findings("all_reduce"), Not(HasSubstr("gainst")));
  EXPECT_THAT(t.findings("all_reduce"), HasSubstr("Bus bandwidth at 1MiB: gloo "));
}

// Nobody can choose it.
TEST(AllReduceSentencesTest, MemorysLimitIsNoBackend) {
  const Tabled t({{Transfer("gloo", 1, 4000), Transfer("memory_limit", 1, 1000)}});
  EXPECT_THAT(t.findings("all_reduce"), Not(HasSubstr("memory_limit:")));
}

TEST(AllReduceSentencesTest, WhatIsWrongComesFirstAndIsNotCompared) {
  const Tabled t({{Transfer("gloo", 1, 4000), Transfer("shm", 1, 1000, 24, 3)}});
  EXPECT_THAT(t.findings("all_reduce"), StartsWith("Wrong elements in 1 of 2 rows, which have no verdict."));
  EXPECT_THAT(t.findings("all_reduce"), Not(HasSubstr("gainst gloo")));
  const Tabled right({{Transfer("gloo", 1, 4000)}});
  EXPECT_THAT(right.findings("all_reduce"), HasSubstr("No element of any result was wrong."));
}

}  // namespace
}  // namespace gradsync::tools
