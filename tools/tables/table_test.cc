#include "tools/tables/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/pivot.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

TEST(TableTest, FindsColumnsByName) {
  Table table("t", "", {{.name = "a", .kind = Kind::kText}, {.name = "b"}});
  table.AddRow({"x", 1.5});
  EXPECT_EQ(table.text(0, "a"), "x");
  EXPECT_EQ(table.number(0, "b"), 1.5);
  EXPECT_EQ(table.column("b"), 1u);
  EXPECT_THROW(table.number(0, "c"), InvalidInput);
}

TEST(TableTest, FlagsStayFlags) {
  Table table("t", "", {{.name = "flags", .kind = Kind::kText}});
  const Flags flags = {{Flag::kSharedGpu, "2"}, {Flag::kTooFewForP99}};
  table.AddRow({flags});
  table.AddRow({Flags()});
  EXPECT_EQ(table.text(0, "flags"), "shared-gpu:2 n<100");
  EXPECT_EQ(std::get<Flags>(table.cell(0, 0)), flags);
  EXPECT_EQ(table.text(1, "flags"), "");
  EXPECT_FALSE(table.is_constant(0));
}

TEST(TableTest, ColumnsSayWhatTheyShow) {
  struct Row {
    std::string name;
    int64_t count = 0;
    double half() const { return 0.5 * static_cast<double>(count); }
  };
  TableOf<Row> table("t", "",
                     {{{.name = "name", .kind = Kind::kText}, &Row::name},
                      {{.name = "count", .kind = Kind::kInteger}, &Row::count},
                      {{.name = "half"}, &Row::half},
                      {{.name = "next"}, [](const Row& row) { return row.count + 1; }}});
  table.Add({"x", 3});
  EXPECT_EQ(table.row(0), (std::vector<Cell>{"x", 3.0, 1.5, 4.0}));
}

TEST(PivotTest, PutsRowsBesideEachOther) {
  Table rows("long", "",
             {{.name = "key", .kind = Kind::kText}, {.name = "what", .kind = Kind::kText}, {.name = "n"}});
  rows.AddRow({"k", "a", 1.0});
  rows.AddRow({"k", "b", 2.0});
  rows.MarkLast("n");
  rows.AddRow({"k", "b", 3.0});
  rows.AddRow({"l", "a", 4.0});
  const std::vector<WideColumn> columns = {{{.name = "key", .kind = Kind::kText}, "key"},
                                           {{.name = "a's"}, "n", "a"},
                                           {{.name = "b's"}, "n", "b"}};
  Table wide("wide", "", ColumnsOf(columns));
  AddLines(
      rows, {0, 1, 2, 3}, [&](size_t row) { return rows.text(row, "what"); }, columns, &wide);
  ASSERT_EQ(wide.num_rows(), 3u);
  EXPECT_EQ(wide.row(0), (std::vector<Cell>{"k", 1.0, 2.0}));
  EXPECT_TRUE(wide.marked(0, 2));
  EXPECT_FALSE(wide.marked(0, 1));
  EXPECT_TRUE(std::isnan(wide.number(1, "a's")));  // b was there already
  EXPECT_EQ(wide.number(1, "b's"), 3);
  EXPECT_EQ(wide.text(2, "key"), "l");
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
