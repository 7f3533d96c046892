#include <gtest/gtest.h>

#include <cmath>

#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

TEST(MemoryTableTest, ShowsWhatIsKeptForEachParameter) {
  const auto change = [](bench::Record& rank) {
    rank.facts.Set("num_parameters", 1000);
    rank.facts.Set("sent_bytes_per_step", bench::Value(4e6));
    rank.facts.Set("theory_sent_bytes", bench::Value(3e6));
    rank.facts.Set("weights_bytes", 2000);
    rank.facts.Set("gradients_bytes", 4000);
    rank.facts.Set("state_bytes", 8000);
    rank.facts.Set("theory_bytes", bench::Value(13e3));
    rank.facts.Set("built_bytes", 15000);
    rank.facts.Set("before_update_bytes", 16000);
    rank.facts.Set("after_update_bytes", 17000);
    rank.facts.Set("peak_bytes_in_use", 18000);
  };
  const Tabled t({{Ddp("zero2", 1, change), Ddp("naive", 1)}});
  const Table& table = t.table("memory");
  ASSERT_EQ(table.num_rows(), 1u);  // of the other nothing is known
  EXPECT_EQ(Text(table, 0, "variant"), "zero2@gloo");
  EXPECT_DOUBLE_EQ(Number(table, 0, "sent (MB)"), 4);
  EXPECT_DOUBLE_EQ(Number(table, 0, "in theory (MB)"), 3);
  EXPECT_DOUBLE_EQ(Number(table, 0, "weights"), 2);
  EXPECT_DOUBLE_EQ(Number(table, 0, "gradients"), 4);
  EXPECT_DOUBLE_EQ(Number(table, 0, "state"), 8);
  EXPECT_DOUBLE_EQ(Number(table, 0, "in theory"), 13);
  EXPECT_DOUBLE_EQ(Number(table, 0, "built"), 15);
  EXPECT_DOUBLE_EQ(Number(table, 0, "before update"), 16);
  EXPECT_DOUBLE_EQ(Number(table, 0, "after update"), 17);
  EXPECT_DOUBLE_EQ(Number(table, 0, "peak"), 18);
  EXPECT_TRUE(std::isnan(Number(table, 0, "process (MB)")));
  // Twelve columns are too many for a line.
  const auto section = [&](const char* name) { return table.columns()[ColumnOf(table, name)].section; };
  EXPECT_EQ(section("in theory"), 1);
  EXPECT_EQ(section("built"), 2);
  EXPECT_EQ(section("peak"), 2);
}

}  // namespace
}  // namespace gradsync::tools
