#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/records/test_records.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;

// Steps that are `longer_ms` longer than 100 ms, and said to be by `delay_us`.
Measurement Delayed(double longer_ms, int64_t delay_us, int phase, size_t num_rounds = 1300) {
  std::vector<double> steps = Wobble(100, num_rounds, phase);
  for (double& step : steps) step += longer_ms;
  return Steady("core", steps, [&](Record& rank) {
    if (delay_us == 0) return;
    rank.variant = bench::Variant::Parse("core:wait_delay_us=" + std::to_string(delay_us) + "@gloo");
    rank.facts.Set("delay_ns", 1000 * delay_us);
  });
}

// 1300 rounds of 303 ms: six windows of a minute, two of three, and 108 of two blocks of six rounds, because
// three variants take every place in six.
TEST(ResolutionTableTest, CountsSamplesThatHoldTheKnownDelay) {
  const Tabled t({{Delayed(0, 0, 1), Delayed(3, 3000, 2), Delayed(0, 1, 3)}});
  const Table& table = t.table("resolution");
  ASSERT_EQ(table.num_rows(), 8u);
  const double samples[] = {108, 6, 2};
  for (size_t row = 0; row < 8; ++row) {
    const bool has_delay = row % 2 == 1, is_extrapolated = row >= 6;
    EXPECT_NEAR(Number(table, row, "delay (%)"), has_delay ? 3 : 0, 0.1) << row;
    EXPECT_EQ(table.marked(row, ColumnOf(table, "half-width (%)")), is_extrapolated) << row;
    if (is_extrapolated) {
      EXPECT_TRUE(std::isnan(Number(table, row, "held the delay"))) << row;
      continue;
    }
    EXPECT_EQ(Number(table, row, "intervals"), samples[row / 2]) << row;
    EXPECT_GE(Number(table, row, "held the delay"), 0.95 * samples[row / 2]) << row;
  }
  EXPECT_EQ(Number(table, 3, "excluded 0"), 6);
  EXPECT_NEAR(Number(table, 0, "rounds"), 12, 1e-9);
  EXPECT_NEAR(Number(table, 2, "rounds"), 60 / 0.303, 1);
  EXPECT_NEAR(Number(table, 2, "minutes"), 1, 1e-9);
  // From all 1300 rounds, which are 6.6 minutes.
  EXPECT_LT(Number(table, 7, "half-width (%)"), Number(table, 5, "half-width (%)"));
  EXPECT_THAT(t.findings("resolution"),
              HasSubstr("All intervals of a sample of 12 rounds held at once in 10"));
}

TEST(ResolutionTableTest, AnotherDelayIsNotHeld) {
  const Tabled t({{Delayed(0, 0, 1), Delayed(3, 10000, 2)}});
  EXPECT_EQ(Number(t.table("resolution"), 1, "held the delay"), 0);
  EXPECT_EQ(Number(t.table("resolution"), 1, "excluded 0"), 4);
}

// One interval of a sample that does not hold is enough.
TEST(ResolutionTableTest, ASampleHoldsIfAllItsIntervalsDo) {
  const Tabled t({{Delayed(0, 0, 1), Delayed(3, 3000, 2), Delayed(3, 10000, 3)}});
  EXPECT_EQ(t.findings("resolution"),
            "All intervals of a sample of 12 rounds held at once in 0 of 108 samples.");
}

// A run ends a little before its time, which is no reason to extrapolate.
TEST(ResolutionTableTest, AlmostSoManyMinutesAreEnough) {
  const Tabled t({{Delayed(0, 0, 1, 280), Delayed(3, 3000, 2, 280)}});  // 57 s
  EXPECT_EQ(Number(t.table("resolution"), 1, "rounds"), 280);
  EXPECT_EQ(Number(t.table("resolution"), 1, "intervals"), 1);
}

TEST(ResolutionTableTest, OthersHaveNone) {
  EXPECT_FALSE(Tabled({{Delayed(0, 0, 1), Delayed(3, 0, 2)}}).has("resolution"));
}

}  // namespace
}  // namespace gradsync::tools
