#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/records/test_records.h"
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

TEST(LinksTableTest, SaysBelowWhichRateARowIsFaster) {
  const Tabled t(Links({1000, 4000, 200}));
  const Table& table = t.table("links");
  ASSERT_EQ(table.num_rows(), 3u);
  EXPECT_EQ(Text(table, 0, "variant"), "topk");
  EXPECT_EQ(Text(table, 0, "faster below"), "1 Gbit/s to 4 Gbit/s");
  EXPECT_NEAR(Number(table, 0, "estimate (Gbit/s)"), 2, 0.1);
  EXPECT_LT(Number(table, 0, "delta at 200 Mbit/s (%)"), -70);
  EXPECT_GT(Number(table, 0, "delta at 4 Gbit/s (%)"), 0);
  EXPECT_EQ(Text(table, 1, "faster below"), "less than 200 Mbit/s");
  EXPECT_TRUE(std::isnan(Number(table, 1, "estimate (Gbit/s)")));
  EXPECT_EQ(Text(table, 2, "faster below"), "more than 4 Gbit/s");
  EXPECT_EQ(t.findings("links"),
            "Steps are shorter than the baseline's below: 1 Gbit/s to 4 Gbit/s (topk); less than 200 Mbit/s "
            "(flat); more than 4 Gbit/s (bf16_wire).");
}

// Beside it what the same row does without a link.
TEST(LinksTableTest, RunsWithoutALinkStandBeside) {
  std::vector<Group> groups = Links({200, 1000});
  Group local;
  for (const auto& [strategy, step_ms] : {std::pair{"core", 100.0}, {"topk", 150.0}, {"zero1", 90.0}})
    local.push_back(
        Steady(strategy, Wobble(step_ms, 30, 1), [](bench::Record& rank) { SetBackend("shm", &rank); }));
  groups.push_back(local);
  const Tabled t(std::move(groups));
  const Table& table = t.table("links");
  ASSERT_EQ(table.num_rows(), 3u);
  EXPECT_NEAR(Number(table, 0, "delta over shm (%)"), 50, 5);
  EXPECT_TRUE(std::isnan(Number(table, 1, "delta over shm (%)")));
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
