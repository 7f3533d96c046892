#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/records/test_records.h"
#include "tools/tables/builder.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;

std::vector<Table> TablesOf(std::unique_ptr<TableBuilder> builder,
                            const std::vector<Measurement>& measurements) {
  // As the reader groups them.
  const auto place = [](const Measurement& measurement) {
    const bench::Fields& config = measurement.record.config;
    return std::tuple(measurement.record.run_id, config.IntOr("batch_size", 0), config.IntOr("seq_len", 0));
  };
  for (size_t i = 0; i < measurements.size();) {
    std::vector<Measured> group;
    const size_t first = i;
    for (; i < measurements.size() && place(measurements[i]) == place(measurements[first]); ++i) {
      group.push_back({measurements[i], measurements[i]});
    }
    builder->AddGroup(group);
  }
  std::vector<Table> tables;
  builder->Finish(&tables);
  return tables;
}

std::vector<Table> PeersOf(const std::vector<Measurement>& measurements) {
  return TablesOf(MakePeersTable({}), measurements);
}

TEST(PeersTableTest, WithoutPeersThereIsNone) {
  EXPECT_TRUE(PeersOf({AtPlace("naive", 2, 128, 1), AtPlace("core", 2, 128, 1)}).empty());
}

TEST(PeersTableTest, ComparesWithTheNamesakeAtTheSamePlaceOfTheSameRun) {
  const std::vector<Table> tables =
      PeersOf({AtPlace("naive", 2, 128, 1), AtPlace("core", 2, 128, 1), AtPlace("pytorch_naive", 2, 128, 4),
               AtPlace("naive", 4, 128, 1), AtPlace("pytorch_naive", 4, 128, 2), AtPlace("naive", 8, 128, 1),
               AtPlace("pytorch_naive", 8, 128, 2, "run2")});
  ASSERT_EQ(tables.size(), 1u);
  const Table& table = tables[0];
  ASSERT_EQ(table.num_rows(), 12u);
  EXPECT_EQ(Text(table, 0, "strategy"), "naive");
  EXPECT_EQ(Text(table, 0, "peer"), "pytorch_naive");
  EXPECT_EQ(Text(table, 0, "phase"), "step");
  EXPECT_DOUBLE_EQ(Number(table, 0, "ratio_to_pytorch"), 0.25);
  EXPECT_EQ(Text(table, 3, "phase"), "sync");
  EXPECT_DOUBLE_EQ(Number(table, 3, "ratio_to_pytorch"), 0.25);
  EXPECT_EQ(Number(table, 6, "batch_size"), 4);
  EXPECT_DOUBLE_EQ(Number(table, 6, "ratio_to_pytorch"), 0.5);
}

// Like a peer that waits inside backward.
Measurement WaitsInside(const char* strategy, int64_t factor) {
  return Ddp(strategy, factor, [](Record& rank) {
    rank.samples.erase("backward_ns");
    rank.samples.erase("sync_exposed_ns");
  });
}

TEST(PeersTableTest, WhatWaitsInsideBackwardIsComparedWithBackwardAndSynchronisation) {
  for (const char* const strategy : {"bucketed_sync", "bucketed_async", "core"}) {
    const std::vector<Table> tables =
        PeersOf({Ddp(strategy, 1, [](Record&) {}), WaitsInside("pytorch_ddp", 2)});
    ASSERT_EQ(tables.size(), 1u);
    ASSERT_EQ(tables[0].num_rows(), 4u);
    EXPECT_EQ(Text(tables[0], 2, "phase"), "backward + sync");
    EXPECT_NEAR(Number(tables[0], 2, "time (s)"), 0.5 * Number(tables[0], 2, "peer's time (s)"), 1e-12);
  }
}

TEST(PeersTableTest, CoreIsComparedWithThePeerThatCopiesAsLittle) {
  const std::vector<Table> tables =
      PeersOf({Ddp("bucketed_async", 1, [](Record&) {}), Ddp("core", 1, [](Record&) {}),
               WaitsInside("pytorch_ddp", 2), WaitsInside("pytorch_ddp_view", 4)});
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].num_rows(), 8u);
  EXPECT_EQ(Text(tables[0], 0, "peer"), "pytorch_ddp");
  EXPECT_EQ(Text(tables[0], 4, "strategy"), "core");
  EXPECT_EQ(Text(tables[0], 4, "peer"), "pytorch_ddp_view");
}

TEST(PeersTableTest, EagerAndCompiledStandBesideEachOther) {
  const auto with_memory = [](std::string_view strategy, int64_t factor, int64_t bytes) {
    return Ddp(strategy, factor, [bytes](Record& rank) {
      rank.facts.Set("num_parameters", 1000);
      rank.facts.Set("peak_bytes_in_use", bytes);
      rank.facts.Set("strategies_in_memory", 1);
    });
  };
  const std::vector<Table> tables =
      PeersOf({with_memory("none", 2, 18000), with_memory("pytorch_none_compiled", 1, 20000),
               with_memory("pytorch_none", 4, 24000)});
  ASSERT_EQ(tables.size(), 1u);
  ASSERT_EQ(tables[0].num_rows(), 12u);
  EXPECT_EQ(Text(tables[0], 0, "peer"), "pytorch_none");
  EXPECT_DOUBLE_EQ(Number(tables[0], 0, "ratio_to_pytorch"), 0.5);
  EXPECT_EQ(Number(tables[0], 0, "memory (B/param)"), 18);
  EXPECT_EQ(Number(tables[0], 0, "peer's memory (B/param)"), 24);
  EXPECT_DOUBLE_EQ(Number(tables[0], 0, "memory_ratio_to_pytorch"), 0.75);
  EXPECT_TRUE(std::isnan(Number(tables[0], 1, "memory (B/param)")));
  EXPECT_EQ(Text(tables[0], 6, "peer"), "pytorch_none_compiled");
  EXPECT_DOUBLE_EQ(Number(tables[0], 6, "ratio_to_pytorch"), 2);
  EXPECT_DOUBLE_EQ(Number(tables[0], 6, "memory_ratio_to_pytorch"), 0.9);
  EXPECT_EQ(Text(tables[0], 0, "peer equals single process"), "floor: no sync");
  EXPECT_EQ(Text(tables[0], 6, "peer equals single process"), "floor: no sync");
}

TEST(PeersTableTest, BucketSizesAreComparedEachWithItsOwn) {
  const auto measured = [](const char* strategy, int64_t mebi, int64_t bucket_bytes, int64_t factor) {
    std::vector<Record> ranks;
    for (const int64_t rank : {0, 1}) {
      ranks.push_back(CompareRecord(strategy, mebi, rank, Repeat(factor * kMs, 12)));
      ranks.back().config.Set("bucket_bytes", bucket_bytes);
    }
    return CombineRanks(ranks);
  };
  std::vector<Measurement> measurements;
  for (const int64_t mebi : {3, 4}) {
    for (const Measurement& one :
         {measured("core", mebi, mebi, 6), measured("bucketed_sync", mebi, 4 * mebi, 6),
          measured("pytorch_ddp", mebi, 4 * mebi, 3), measured("pytorch_ddp_view", mebi, mebi, 2)}) {
      measurements.push_back(one);
    }
  }
  const std::vector<Table> tables = TablesOf(MakeComparePeersTable({}), measurements);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].name(), "compare_peers");
  ASSERT_EQ(tables[0].num_rows(), 16u);
  for (const size_t size : {0u, 8u}) {
    EXPECT_EQ(Text(tables[0], size, "peer"), "pytorch_ddp_view");
    EXPECT_DOUBLE_EQ(Number(tables[0], size, "ratio_to_pytorch"), 3);
    EXPECT_EQ(Text(tables[0], size + 4, "peer"), "pytorch_ddp");
    EXPECT_DOUBLE_EQ(Number(tables[0], size + 4, "ratio_to_pytorch"), 2);
  }
}

}  // namespace
}  // namespace gradsync::tools
