#include "tools/tables/table.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "model/error.h"
#include "tools/records/text_pool.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(TextPoolTest, NumbersEqualTextsAlike) {
  TextPool pool;
  EXPECT_EQ(pool.Intern("a"), 0u);
  EXPECT_EQ(pool.Intern(""), 1u);
  EXPECT_EQ(pool.Intern("long enough to need memory of its own"), 2u);
  EXPECT_EQ(pool.Intern("a"), 0u);
  EXPECT_EQ(pool.Intern(""), 1u);
  EXPECT_EQ(pool.size(), 3u);
  for (int i = 0; i < 1000; ++i) pool.Intern(std::to_string(i));
  TextPool moved = std::move(pool);
  EXPECT_EQ(moved.Intern("999"), 1002u);
  EXPECT_EQ(moved.text(2), "long enough to need memory of its own");
}

TEST(TableTest, KeepsWhatItIsGiven) {
  Table table("t", "", {{.name = "a", .kind = Kind::kText}, {.name = "b"}});
  EXPECT_FALSE(table.is_constant(0));
  table.AddRow({"x", 1.5});
  table.AddRow({"x", kNaN});
  table.MarkLast("b");
  EXPECT_EQ(table.num_rows(), 2u);
  EXPECT_EQ(table.text(1, 0), "x");
  EXPECT_EQ(table.number(0, 1), 1.5);
  EXPECT_FALSE(table.marked(0, 1));
  EXPECT_TRUE(table.marked(1, 1));
  EXPECT_FALSE(table.marked(1, 0));
  EXPECT_TRUE(table.is_constant(0));
  EXPECT_FALSE(table.is_constant(1));
  EXPECT_EQ(table.row(0), (std::vector<Cell>{"x", 1.5}));
}

TEST(TableTest, RefusesRowsThatDoNotFit) {
  Table table("t", "", {{.name = "a", .kind = Kind::kText}, {.name = "b"}});
  EXPECT_THROW(table.AddRow({"x"}), InvalidInput);
  EXPECT_THROW(table.AddRow({1.0, 1.0}), InvalidInput);
  EXPECT_THROW(table.AddRow({"x", "y"}), InvalidInput);
  EXPECT_EQ(table.num_rows(), 0u);
  EXPECT_THROW(table.MarkLast("c"), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
