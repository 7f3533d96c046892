#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/records/test_records.h"
#include "tools/tables/builder.h"
#include "tools/tables/summarize.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The slowest ranks' steps: 20, 20, 30, 40 ms, times `factor`.
Measurement Compare(std::string_view strategy, int64_t buffer_mebi, int64_t factor,
                    const std::function<void(Record&)>& change = {}) {
  const int64_t ms = factor * kMs;
  std::vector<Record> ranks = {CompareRecord(strategy, buffer_mebi, 0, {10 * ms, 20 * ms, 30 * ms, 40 * ms}),
                               CompareRecord(strategy, buffer_mebi, 1, {20 * ms, 10 * ms, 30 * ms, 40 * ms})};
  for (Record& rank : ranks) {
    if (change) change(rank);
  }
  return CombineRanks(std::move(ranks));
}

// core, and bucketed_sync that takes twice as long, at each size.
std::vector<Table> TablesOf(const std::vector<int64_t>& buffers_mebi) {
  const std::unique_ptr<TableBuilder> builder = MakeCompareTable({});
  std::deque<Measurement> measurements;
  for (const int64_t buffer_mebi : buffers_mebi) {
    const Measurement& core = measurements.emplace_back(Compare("core", buffer_mebi, 1));
    builder->Add({core, core});
    builder->Add({measurements.emplace_back(Compare("bucketed_sync", buffer_mebi, 2)), core});
  }
  std::vector<Table> tables;
  builder->Finish(&tables);
  std::erase_if(tables, [](const Table& table) { return table.name() == "compare_differences"; });
  return tables;
}

TEST(CompareTableTest, MachinesGetARowForEachSizeStrategyAndPhase) {
  const std::vector<Table> tables = TablesOf({3, 25});
  const Table& table = tables.back();
  EXPECT_EQ(table.name(), "compare");
  EXPECT_EQ(table.audience(), Audience::kMachines);
  ASSERT_EQ(table.num_rows(), 2u * 2 * 4);
  std::vector<std::string> phases;
  for (size_t row = 0; row < 4; ++row) phases.push_back(Text(table, row, "phase"));
  EXPECT_THAT(phases, ElementsAre("forward", "backward", "backward_and_sync", "step"));
  EXPECT_EQ(Text(table, 0, "model"), "resnet50");
  EXPECT_EQ(Number(table, 0, "batch_size"), 8);
  EXPECT_EQ(Number(table, 0, "image_size"), 64);
  EXPECT_TRUE(std::isnan(Number(table, 0, "seq_len")));
  EXPECT_EQ(Text(table, 0, "units"), "bytes");
  EXPECT_EQ(Number(table, 0, "buffer_elements (Mi)"), 3);
  EXPECT_EQ(Number(table, 8, "buffer_elements (Mi)"), 25);
  EXPECT_EQ(Number(table, 0, "bucket_bytes"), 12582912);
  EXPECT_EQ(Number(table, 0, "buckets"), 2);
  EXPECT_EQ(Number(table, 0, "steps"), 4);
}

TEST(CompareTableTest, ComputesStatisticsAndTheirDifferences) {
  const std::vector<Table> tables = TablesOf({3});
  const Table& table = tables.back();
  // backward_and_sync of bucketed_sync: 0.7 x 40, 40, 60, 80 ms.
  constexpr size_t kRow = 6;
  EXPECT_EQ(Text(table, kRow, "strategy"), "bucketed_sync");
  EXPECT_EQ(Text(table, kRow, "phase"), "backward_and_sync");
  EXPECT_DOUBLE_EQ(Number(table, kRow, "mean (ms)"), 38.5);
  // Squares of -15, -15, 5, 25 add up to 1100.
  EXPECT_DOUBLE_EQ(Number(table, kRow, "std (ms)"), 0.7 * std::sqrt(1100.0 / 4));
  EXPECT_DOUBLE_EQ(Number(table, kRow, "median (ms)"), 35);
  EXPECT_DOUBLE_EQ(Number(table, kRow, "p90 (ms)"), 51.8);   // index 2.7 of 28 28 42 56
  EXPECT_DOUBLE_EQ(Number(table, kRow, "p95 (ms)"), 53.9);   // index 2.85
  EXPECT_DOUBLE_EQ(Number(table, kRow, "p99 (ms)"), 55.58);  // index 2.97
  for (const char* const column :
       {"delta (%)", "ci95_low (%)", "ci95_high (%)", "delta_median (%)", "delta_p90 (%)", "delta_p99 (%)"}) {
    EXPECT_NEAR(Number(table, kRow, column), 100, 1e-9) << column;
  }
  EXPECT_EQ(Text(table, kRow, "baseline"), "core");
  EXPECT_EQ(Text(table, kRow, "equals reference"), "yes");
  EXPECT_EQ(Text(table, kRow, "flags"), "one-launch n<10 n<20 n<100");
  EXPECT_TRUE(table.marked(kRow, ColumnOf(table, "p95 (ms)")));
  EXPECT_TRUE(table.marked(kRow, ColumnOf(table, "p99 (ms)")));
  // core itself
  EXPECT_EQ(Number(table, 2, "delta (%)"), 0);
  EXPECT_TRUE(std::isnan(Number(table, 2, "ci95_low (%)")));
}

TEST(CompareTableTest, PeopleGetABlockForEachSizeWithASectionForEachPhase) {
  const std::vector<Table> tables = TablesOf({3, 25});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].audience(), Audience::kPeople);
  EXPECT_EQ(tables[0].title(), "Summary for buffer_size: 3Mi");
  EXPECT_EQ(tables[1].title(), "Summary for buffer_size: 25Mi");
  EXPECT_EQ(tables[0].num_rows(), 2u);
  EXPECT_EQ(tables[0].section_title(1), "DDP: [forward], ms");
  // Forward of bucketed_sync: 0.2 x 55 ms; p99 is marked.
  const size_t mean = tables[0].column("Mean");
  EXPECT_DOUBLE_EQ(tables[0].number(1, mean), 11);
  EXPECT_NEAR(tables[0].number(1, mean + 1), 100, 1e-9);
  EXPECT_EQ(tables[0].columns()[mean + 8].name, "p99");
  EXPECT_NEAR(tables[0].number(0, mean + 8), 7.94, 1e-9);
  EXPECT_TRUE(tables[0].marked(0, mean + 8));
}

Measurement Interleaved(std::string_view strategy, int64_t size, const std::vector<int64_t>& steps) {
  return CombineRanks({CompareRecord(strategy, size, 0, steps), CompareRecord(strategy, size, 1, steps)});
}

std::vector<std::string> FindingsOf(const std::vector<std::vector<Measurement>>& sizes) {
  const std::unique_ptr<TableBuilder> builder = MakeCompareTable({});
  for (const std::vector<Measurement>& size : sizes) {
    for (const Measurement& measurement : size) builder->Add({measurement, size.front()});
  }
  std::vector<Table> tables;
  builder->Finish(&tables);
  return tables.front().findings();
}

// Ten steps around 100 ms.
std::vector<int64_t> Noisy() {
  std::vector<int64_t> noisy = Repeat(100 * kMs, 10);
  for (size_t i = 0; i < noisy.size(); ++i) noisy[i] += (i % 2 == 0 ? 20 : -19) * kMs;
  return noisy;
}

TEST(CompareTableTest, SaysWhatTheIntervalsCarry) {
  std::vector<std::vector<Measurement>> sizes;
  for (const int64_t size : {3, 4, 5}) {
    sizes.push_back({Interleaved("core", size, Repeat(100 * kMs, 10)),
                     Interleaved("bucketed_sync", size, Repeat((100 + 10 * size) * kMs, 10)),
                     Interleaved("bucketed_async", size, size == 3 ? Repeat(90 * kMs, 10) : Noisy())});
  }
  const std::vector<std::string> findings = FindingsOf(sizes);
  EXPECT_THAT(findings, Contains("backward_and_sync of bucketed_sync against core: slower at 3 of 3 sizes "
                                 "(+30.0 % to +50.0 %)."));
  EXPECT_THAT(findings, Contains("backward_and_sync of bucketed_async against core: faster at 1 of 3, no "
                                 "difference shown at 2 of 3 sizes (-10.0 %)."));
  ASSERT_EQ(findings.size(), 2u + 2 * 4);
  EXPECT_EQ(findings[0], "step: bucketed_async is fastest at 1 of 3 sizes; at 2 it is open.");
  EXPECT_EQ(findings[1], "backward_and_sync: bucketed_async is fastest at 1 of 3 sizes; at 2 it is open.");
}

// Rounds that differ by 2.9 +- 3.1 ms at one size, and by noise at the others: 3 standard errors, which are
// shown alone (2.4 are needed), but not as one size of nine (3.4 to 3.7).
TEST(CompareTableTest, OneRowAmongManyNeedsMore) {
  const auto sizes = [](int64_t most) {
    std::mt19937_64 random(20261121);
    std::vector<std::vector<Measurement>> all;
    for (int64_t size = 1; size <= most; ++size) {
      std::vector<int64_t> noise;
      for (int64_t i = 0; i < 10; ++i) noise.push_back((i % 3 == 0 ? 4 : -2) * kMs);
      if (size > 1) std::shuffle(noise.begin(), noise.end(), random);
      std::vector<int64_t> slower = Noisy();
      for (size_t i = 0; i < slower.size(); ++i) slower[i] += noise[i] + (size == 1 ? 5 * kMs / 2 : 0);
      all.push_back({Interleaved("core", size, Noisy()), Interleaved("bucketed_sync", size, slower)});
    }
    return all;
  };
  EXPECT_THAT(FindingsOf(sizes(1)),
              Contains(StartsWith("step of bucketed_sync against core: slower at 1 of 1")));
  EXPECT_THAT(FindingsOf(sizes(9)),
              Contains("step of bucketed_sync against core: no difference shown at 9 of 9 sizes."));
}

TEST(CompareTableTest, WrongGradientsAreNotCompared) {
  const std::vector<int64_t> steps = Repeat(100 * kMs, 10);
  Measurement wrong = Interleaved("bucketed_sync", 3, Repeat(90 * kMs, 10));
  wrong.grads_equal = false;
  EXPECT_THAT(FindingsOf({{Interleaved("core", 3, steps), wrong}}), IsEmpty());
  Measurement wrong_core = Interleaved("core", 3, steps);
  wrong_core.grads_equal = false;
  EXPECT_THAT(FindingsOf({{wrong_core, Interleaved("bucketed_sync", 3, Repeat(90 * kMs, 10))}}), IsEmpty());
}

TEST(CompareTableTest, FewStepsCarryNothing) {
  const std::vector<Table> tables = TablesOf({3});
  EXPECT_THAT(tables[0].findings(),
              Contains("forward of bucketed_sync against core: no difference shown at 1 of 1 size."));
  EXPECT_THAT(tables[0].findings(),
              Contains("step: No strategy is called fastest: there are fewer than 10 steps (`n<10`)."));
}

TEST(CompareTableTest, APhaseThatWasNotMeasuredIsLeftOut) {
  const Measurement core =
      Compare("core", 3, 1, [](Record& rank) { rank.samples.erase("backward_and_sync_ns"); });
  const std::unique_ptr<TableBuilder> builder = MakeCompareTable({});
  builder->Add({core, core});
  std::vector<Table> tables;
  builder->Finish(&tables);
  EXPECT_EQ(tables.back().num_rows(), 3u);
}

TEST(CompareTableTest, EachSizeIsComparedWithItsOwnCore) {
  const std::string dir = FreshTestDir("compare");
  std::vector<Record> records;
  for (const int64_t rank : {0, 1}) {
    for (const int64_t size : {3, 25}) {
      // Whatever comes first, and whatever else is there.
      records.push_back(CompareRecord("naive", size, rank, Repeat(size * 20 * kMs, 4)));
      records.push_back(CompareRecord("bucketed_async", size, rank, Repeat(size * 11 * kMs, 4)));
      records.push_back(CompareRecord("core", size, rank, Repeat(size * 10 * kMs, 4)));
    }
  }
  WriteLines(dir + "/compare.jsonl", records);
  const auto compare_table = [&](const std::string& wish) {
    Summary summary = Summarize({.inputs = {dir}, .baseline_row = wish, .resamples = {}});
    for (Table& table : summary.report.tables) {
      if (table.name() == "compare") return std::move(table);
    }
    throw std::out_of_range("compare");
  };
  const Table table = compare_table("");
  ASSERT_EQ(table.num_rows(), 24u);
  for (const size_t row : {size_t{4}, size_t{16}}) {
    EXPECT_EQ(Text(table, row, "strategy"), "bucketed_async");
    EXPECT_NEAR(Number(table, row, "delta (%)"), 10, 1e-9);
    EXPECT_EQ(Text(table, row, "baseline"), "core");
  }
  EXPECT_EQ(Text(compare_table("naive"), 4, "baseline"), "naive");
}

}  // namespace
}  // namespace gradsync::tools
