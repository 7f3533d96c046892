#include <gtest/gtest.h>

#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

TEST(UpdateTableTest, ShowsWhatUpdatesOfMatricesCost) {
  const auto with = [](const char* optimizer) {
    return [=](bench::Record& rank) {
      rank.config.Set("optimizer", optimizer);
      rank.facts.Set("built_bytes", 15000);
      rank.facts.Set("largest_work", bench::Value(1.04));
      rank.facts.Set("sent_bytes_per_step", bench::Value(4e6));
      rank.facts.Set("theory_sent_bytes", bench::Value(3e6));
    };
  };
  const auto row = [&](const char* strategy, double optimizer_ms, const char* optimizer) {
    return Made(strategy, Steps(Phases{.optimizer = optimizer_ms}), 0, "run", with(optimizer));
  };
  const Tabled t({{row("owned", 2, "muon"), row("core", 0.1, "muon"), row("flat", 2, "adamw")}});
  const Table& table = t.table("update");
  ASSERT_EQ(table.num_rows(), 2u);
  EXPECT_EQ(Text(table, 0, "tells"), "yes");
  EXPECT_EQ(Text(table, 1, "tells"), "no");
  EXPECT_DOUBLE_EQ(Number(table, 0, "largest work"), 1.04);
  EXPECT_DOUBLE_EQ(Number(table, 0, "sent (MB)"), 4);
  EXPECT_DOUBLE_EQ(Number(table, 0, "in theory (MB)"), 3);
  // The mean of the steps that are shown is trimmed, the mean that the part is of is not.
  EXPECT_NEAR(Number(table, 0, "of the step"), Number(table, 0, "update (s)") / Number(table, 0, "step (s)"),
              1e-4);
}

}  // namespace
}  // namespace gradsync::tools
