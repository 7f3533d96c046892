#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/records/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Steps that are `longer_ms` longer than 100 ms, and said to be by `delay_ms`.
Measurement Delayed(double longer_ms, int64_t delay_ms, int phase) {
  std::vector<double> steps = Wobble(100, 1300, phase);
  for (double& step : steps) step += longer_ms;
  return Steady("core", steps, [&](Record& rank) {
    if (delay_ms == 0) return;
    rank.config.Set("variant", "core:wait_delay_us=" + std::to_string(1000 * delay_ms) + "@gloo");
    rank.facts.Set("delay_ns", delay_ms * kMs);
  });
}

// 1300 rounds of 203 ms: four windows of a minute, one of three.
TEST(ResolutionTableTest, CountsWindowsThatHoldTheKnownDelay) {
  const Tabled t({{Delayed(0, 0, 1), Delayed(3, 3, 2)}});
  const Table& table = t.table("resolution");
  ASSERT_EQ(table.num_rows(), 3u);
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(Text(table, row, "variant"), "core:wait_delay_us=3000@gloo");
    EXPECT_NEAR(Number(table, row, "delay (%)"), 3, 0.1);
    EXPECT_EQ(table.marked(row, ColumnOf(table, "half-width (%)")), row == 2);
  }
  for (const char* const count : {"intervals", "held the delay", "excluded 0"}) {
    EXPECT_EQ(Number(table, 0, count), 4) << count;
    EXPECT_EQ(Number(table, 1, count), 1) << count;
  }
  EXPECT_EQ(Number(table, 2, "intervals"), 0);
  EXPECT_TRUE(std::isnan(Number(table, 2, "held the delay")));
  EXPECT_NEAR(Number(table, 0, "rounds"), 60 / 0.203, 1);
  EXPECT_NEAR(Number(table, 2, "half-width (%)"), Number(table, 1, "half-width (%)") * std::sqrt(0.3), 1e-3);
  EXPECT_THAT(t.findings("resolution"), StartsWith("core@gloo: a difference of steps is known to +- "));
  EXPECT_THAT(t.findings("resolution"),
              HasSubstr("after 10 minutes; 5 of 5 intervals held the known delay."));
}

TEST(ResolutionTableTest, AnotherDelayIsNotHeld) {
  const Tabled t({{Delayed(0, 0, 1), Delayed(3, 10, 2)}});
  EXPECT_EQ(Number(t.table("resolution"), 0, "held the delay"), 0);
  EXPECT_EQ(Number(t.table("resolution"), 0, "excluded 0"), 4);
}

TEST(ResolutionTableTest, OthersHaveNone) {
  EXPECT_FALSE(Tabled({{Delayed(0, 0, 1), Delayed(3, 0, 2)}}).has("resolution"));
}

}  // namespace
}  // namespace gradsync::tools
