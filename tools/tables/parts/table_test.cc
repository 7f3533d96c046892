#include "tools/tables/parts/table.h"

#include <gtest/gtest.h>

#include <string>

#include "model/base/error.h"
#include "tools/tables/parts/fields.h"

namespace gradsync::tools {
namespace {

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
  EXPECT_EQ(table.row(0), (std::vector<TableCell>{"x", 1.5}));
}

TEST(TableTest, FindsColumnsByName) {
  Table table("t", "", {{.name = "a", .kind = Kind::kText}, {.name = "b"}});
  table.AddRow({"x", 1.5});
  EXPECT_EQ(table.column("b"), 1u);
  EXPECT_THROW(table.column("c"), InvalidInput);
}

TEST(TableTest, WarningsStayWarnings) {
  Table table("t", "", {{.name = "warnings", .kind = Kind::kText}});
  const Warnings warnings = {{Warning::kSharedGpu, "2"}, {Warning::kTooFewForP99}};
  table.AddRow({warnings});
  table.AddRow({Warnings()});
  EXPECT_EQ(table.text(0, 0), "shared-gpu:2 n<100");
  EXPECT_EQ(std::get<Warnings>(table.cell(0, 0)), warnings);
  EXPECT_EQ(table.text(1, 0), "");
  EXPECT_FALSE(table.is_constant(0));
}

TEST(TableTest, ColumnsSayWhatTheyShow) {
  struct Row {
    std::string name;
    int64_t count = 0;
    double half() const { return 0.5 * static_cast<double>(count); }
  };
  TableOf<Row> table("t", "",
                     {{{.name = "name"}, &Row::name},
                      {{.name = "count"}, &Row::count},
                      {{.name = "half"}, &Row::half},
                      {{.name = "next"}, [](const Row& row) { return row.count + 1; }}});
  table.Add({"x", 3});
  EXPECT_EQ(table.row(0), (std::vector<TableCell>{"x", 3.0, 1.5, 4.0}));
  std::vector<Kind> kinds;
  for (const Column& column : table.columns()) kinds.push_back(column.kind);
  EXPECT_EQ(kinds, (std::vector{Kind::kText, Kind::kInteger, Kind::kDecimal, Kind::kInteger}));
}

TEST(TableTest, AnEstimateMakesThreeColumns) {
  TableOf<Estimate> table(
      "t", "", {{{.name = "delta (%)", .kind = Kind::kPercent}, [](const Estimate& all) { return all; }}});
  table.Add({1, {0.5, 2}});
  ASSERT_EQ(table.columns().size(), 3u);
  EXPECT_EQ(table.number(0, table.column("delta (%)")), 1);
  EXPECT_EQ(table.number(0, table.column("delta_low (%)")), 0.5);
  EXPECT_EQ(table.number(0, table.column("delta_high (%)")), 2);
  EXPECT_EQ(table.columns()[2].audience, Audience::kMachines);
}

TEST(TableTest, NumbersAreMarkedWithTheirRowsWarnings) {
  Table table(
      "t", "",
      {{.name = "p99", .marked_with = Warning::kTooFewForP99}, {.name = "warnings", .kind = Kind::kText}});
  table.AddRow({1.0, Warnings{{Warning::kTooFewForP99}}});
  table.AddRow({1.0, Warnings{{Warning::kDirty}}});
  EXPECT_TRUE(table.marked(0, 0));
  EXPECT_FALSE(table.marked(1, 0));
}

}  // namespace
}  // namespace gradsync::tools
