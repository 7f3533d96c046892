#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/measurements/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

// A step over a link: what a strategy computes, and what it sends, in ms and Mbit.
Measurement Over(int64_t mbit_per_s, std::string_view strategy, double compute_ms, double mbit, int phase) {
  const double step_ms = compute_ms + 1e3 * mbit / static_cast<double>(mbit_per_s);
  return Steady(strategy, Wobble(step_ms, 30, phase), [&](bench::Record& rank) {
    rank.config.Set("link_rate", mbit_per_s * 1000000);
    rank.run_id = "run" + std::to_string(mbit_per_s);
  });
}

// `topk` sends 180 Mbit less and computes 90 ms longer: both take as long at 2 Gbit/s. `flat` always takes
// longer.
std::vector<Group> Links(const std::vector<int64_t>& rates) {
  std::vector<Group> groups;
  for (const int64_t rate : rates) {
    groups.push_back({Over(rate, "core", 100, 200, 1), Over(rate, "topk", 190, 20, 2),
                      Over(rate, "flat", 150, 200, 3), Over(rate, "bf16_wire", 100, 100, 4)});
  }
  return groups;
}

TEST(LinksTableTest, SaysAtWhichRatesARowIsFaster) {
  const Tabled t(Links({1000, 4000, 200}));
  const Table& table = t.table("links");
  ASSERT_EQ(table.num_rows(), 3u);
  EXPECT_EQ(Text(table, 0, "variant"), "topk");
  EXPECT_EQ(Text(table, 0, "faster than baseline"), "up to 1 Gbit/s; slower at 4 Gbit/s");
  EXPECT_LT(Number(table, 0, "delta at 200 Mbit/s (%)"), -70);
  EXPECT_GT(Number(table, 0, "delta at 4 Gbit/s (%)"), 0);
  EXPECT_EQ(Text(table, 1, "faster than baseline"), "never");
  EXPECT_EQ(Text(table, 2, "faster than baseline"), "at every rate measured");
  EXPECT_EQ(Text(table, 0, "verdict at 200 Mbit/s"), "faster");
  EXPECT_EQ(Text(table, 0, "verdict at 4 Gbit/s"), "slower");
}

// What the column says of rows that are so many times as long as the baseline's at 50, 200, 1000, 4000
// Mbit/s.
std::string FasterWhere(const std::vector<double>& factors) {
  std::vector<Group> groups;
  for (size_t i = 0; i < factors.size(); ++i) {
    const int64_t rate = std::vector<int64_t>{50, 200, 1000, 4000}[i];
    groups.push_back({Over(rate, "core", 100, 0, 1), Over(rate, "topk", 100 * factors[i], 0, 2)});
  }
  return Text(Tabled(std::move(groups)).table("links"), 0, "faster than baseline");
}

TEST(LinksTableTest, NamesMeasuredRatesAlone) {
  EXPECT_EQ(FasterWhere({0.5, 0.8, 0.9, 0.9}), "at every rate measured");
  EXPECT_EQ(FasterWhere({1.5, 1.8, 1.9, 1.9}), "never");
  EXPECT_EQ(FasterWhere({0.5, 0.8, 1, 1}), "up to 200 Mbit/s");
  EXPECT_EQ(FasterWhere({0.5, 0.8, 1, 1.5}), "up to 200 Mbit/s; slower at 4 Gbit/s");
  EXPECT_EQ(FasterWhere({1, 0.8, 0.9, 1.5}), "only from 200 Mbit/s to 1 Gbit/s; slower at 4 Gbit/s");
  EXPECT_EQ(FasterWhere({1, 1, 0.9, 1}), "only at 1 Gbit/s");
  EXPECT_EQ(FasterWhere({1, 1.2, 1, 1.3}), "open; slower at 200 Mbit/s and 4 Gbit/s");
  // A later "faster" hides no "slower".
  EXPECT_EQ(FasterWhere({0.5, 1.5, 0.5, 1}), "open; slower at 200 Mbit/s");
}

// Beside it what the same row does without a link.
TEST(LinksTableTest, RunsWithoutALinkStandBeside) {
  std::vector<Group> groups = Links({200, 1000});
  Group local;
  for (const auto& [strategy, step_ms] : {std::pair{"core", 100.0}, {"topk", 150.0}, {"zero1", 90.0}})
    local.push_back(
        Steady(strategy, Wobble(step_ms, 30, 1), [](bench::Record& rank) { rank.variant.backend = "shm"; }));
  groups.push_back(local);
  const Tabled t(std::move(groups));
  const Table& table = t.table("links");
  ASSERT_EQ(table.num_rows(), 3u);
  EXPECT_NEAR(Number(table, 0, "delta over shm (%)"), 50, 5);
  EXPECT_TRUE(std::isnan(Number(table, 1, "delta over shm (%)")));
  EXPECT_EQ(Text(table, 0, "verdict over shm"), "slower");
  EXPECT_EQ(Text(table, 1, "verdict over shm"), "");
}

TEST(LinksTableTest, OneRateIsNoTable) { EXPECT_FALSE(Tabled(Links({1000})).has("links")); }

// Another model is another table's row.
TEST(LinksTableTest, RowsDifferInTheRateAlone) {
  std::vector<Group> groups = Links({200, 1000});
  for (Measurement& measurement : groups[1]) measurement.record.config.Set("batch_size", 64);
  EXPECT_EQ(Tabled(std::move(groups)).table("links").num_rows(), 6u);
}

}  // namespace
}  // namespace gradsync::tools
