#include "tools/tables/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

Table DdpTableOf(const std::vector<std::vector<Record>>& measurements) {
  const std::string dir = FreshTestDir("cost");
  std::vector<Record> records;
  for (const std::vector<Record>& ranks : measurements)
    records.insert(records.end(), ranks.begin(), ranks.end());
  WriteLines(dir + "/a.jsonl", records);
  Summary summary = Summarize({.inputs = {dir}, .baseline_row = "", .resamples = {}});
  for (Table& table : summary.report.tables) {
    if (table.name() == "ddp") return std::move(table);
  }
  throw std::out_of_range("ddp");
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

TEST(CostTest, APeersFloorIsItsOwn) {
  EXPECT_EQ(Cost::FloorOf("core"), "none");
  EXPECT_EQ(Cost::FloorOf("pytorch_ddp"), "pytorch_none");
  EXPECT_EQ(Cost::FloorOf("pytorch_ddp_view_compiled"), "pytorch_none_compiled");
}

}  // namespace
}  // namespace gradsync::tools
