#include "tools/render/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "bench/records/record.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;

// With buckets of so many bytes.
Change Buckets(int64_t bytes) {
  return [bytes](bench::Record& record) { record.facts.Set("bucket_bytes", bytes); };
}

std::vector<std::string> HeadsOf(const std::vector<Group>& groups) {
  const Tabled t(groups);
  return GridOf(ChoicesOf(t.settings), 1).rows[0];
}

TEST(GridTest, BaselinesOverOneBackendAreTold) {
  const Measurement small = Steady("core:bucket_bytes=1Mi", Wobble(100, 24, 1), Buckets(1 << 20)),
                    large = Steady("core:bucket_bytes=4Mi", Wobble(110, 24, 2), Buckets(4 << 20)),
                    in_shm = Steady("core:bucket_bytes=4Mi@shm", Wobble(90, 24, 3), Buckets(4 << 20));
  EXPECT_THAT(HeadsOf({{small, large, in_shm}}), ElementsAre("", "gloo, 1MiB", "gloo, 4MiB", "shm"));
  EXPECT_THAT(HeadsOf({{small, in_shm}}), ElementsAre("", "gloo", "shm"));
}

TEST(GridTest, BaselinesOfTwoCellsNeedNoMoreThanTheirBackend) {
  EXPECT_THAT(HeadsOf({{AtPlace("core", 1, 64, 1), AtPlace("naive", 1, 64, 2)},
                       {AtPlace("core", 2, 64, 1), AtPlace("naive", 2, 64, 2)}}),
              ElementsAre("", "gloo", "gloo"));
}

// With a batch of 1 zero1 is fastest, with a batch of 2 core is.
TEST(GridTest, StarsBestRowsAndFloorsBelongToTheirSetting) {
  const auto group = [](int64_t batch_size, double floor_ms, double zero1_ms) {
    const Change at = [batch_size](bench::Record& record) { record.config.Set("batch_size", batch_size); };
    return Group{Steady("none", Wobble(floor_ms, 24, 0), at), Steady("core", Wobble(100, 24, 1), at),
                 Steady("naive", Wobble(150, 24, 2), at), Steady("zero1", Wobble(zero1_ms, 24, 3), at)};
  };
  const Tabled t({group(1, 60, 80), group(2, 70, 120)});
  const Grid grid = GridOf(ChoicesOf(t.settings), 1);
  std::map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> names;
  for (const std::vector<std::string>& row : grid.rows) {
    names.push_back(row[0]);
    rows[row[0]] = {row.begin() + 1, row.end()};
  }
  EXPECT_THAT(names, ElementsAre("", "core", "zero1", "naive", "floor (no sync)", "baseline's cost",
                                 "best row's step", "best row's cost"));
  EXPECT_EQ(grid.num_last, 4u);
  using ::testing::ContainsRegex;
  EXPECT_THAT(rows["core"], ElementsAre(ContainsRegex("^[19][0-9.]+ ms$"), ContainsRegex("^[19].* ms [*]$")));
  EXPECT_THAT(rows["zero1"], ElementsAre(ContainsRegex("^-.*\\] [*]$"), ContainsRegex("^\\+.*\\]$")));
  EXPECT_THAT(rows["floor (no sync)"], ElementsAre(ContainsRegex("^(59|60)"), ContainsRegex("^(69|70)")));
  EXPECT_THAT(rows["baseline's cost"], ElementsAre("38 to 42 ms", "28 to 32 ms"));
  EXPECT_THAT(rows["best row's step"], ElementsAre(ContainsRegex("^(79|80)"), ContainsRegex("^(99|100)")));
  EXPECT_THAT(rows["best row's cost"], ElementsAre("19.5 to 20.6 ms", "28 to 32 ms"));
}

Lines LinesOf(const Grid& grid) {
  Lines lines;
  grid.AddTo(10, &lines);
  return lines;
}

TEST(GridTest, ColumnsAreAsWideAsTheirHeading) {
  EXPECT_THAT(LinesOf({.over = {"", "tiny, batch 2", "", "small, batch 1"},
                       .rows = {{"", "gloo", "shm", "gloo"}, {"core", "9 ms", "7 ms", "8 ms"}}}),
              ElementsAre("      tiny, batch 2  small, batch 1",  //
                          "      gloo  shm      gloo",            //
                          "core  9 ms  7 ms     8 ms"));
  // One column, and none that needs more.
  EXPECT_THAT(LinesOf({.over = {"", "tiny", ""}, .rows = {{"", "gloo", "shm"}}}),
              ElementsAre("  tiny", "  gloo  shm"));
}

// Whatever the room, a grid keeps to it: first what comes last gives way, then all.
TEST(GridTest, TakesNoMoreLinesThanItMay) {
  Grid grid{.over = {"", "tiny"}, .rows = {{"", "gloo"}}, .num_last = 4};
  for (int i = 0; i < 12; ++i) grid.rows.push_back({"row" + std::to_string(i), "1"});
  for (size_t most = 0; most <= 20; ++most) {
    Lines lines = {"above"};
    grid.AddTo(most, &lines);
    EXPECT_EQ(lines.size() - 1, most < 4 ? 0 : std::min<size_t>(most, 14)) << most;
    if (most < 4) continue;
    EXPECT_EQ(lines[2].substr(0, 6), "      ") << most;
    EXPECT_EQ(lines[3].substr(0, 4), "row0") << most;
    EXPECT_EQ(lines.back().substr(0, 5), most < 8 ? "not s" : "row11") << most;
  }
}

// 30 + 2 + 34 + 2 + 34 = 102 of 110 characters: eight are left for a heading that needs 16 more.
TEST(GridTest, HeadingsTakeNoColumnItsRoom) {
  const std::string heading(20, 'h'), name(30, 'n'), wide(34, 'x');
  const auto grid = [&](const std::string& first) {
    return Grid{.over = {"", heading, wide}, .rows = {{name, first, wide}}};
  };
  EXPECT_TRUE(grid("gloo").fits());
  EXPECT_THAT(LinesOf(grid("gloo")), ElementsAre(std::string(32, ' ') + heading + "  " + wide,
                                                 name + "  gloo" + std::string(18, ' ') + wide));
  const Grid full{.over = {"", heading, wide}, .rows = {{name + wide, "gloo", wide}}};
  EXPECT_THAT(LinesOf(full)[0], ::testing::HasSubstr("hhhhh…"));
  EXPECT_EQ(LinesOf(full)[1], name + wide + "  gloo      " + wide);
  // Two headings share the room.
  const std::string label(90, 'n');
  EXPECT_THAT(LinesOf({.over = {"", heading, heading}, .rows = {{label, "gloo", "shm"}}})[1],
              ::testing::StartsWith(label + "  gloo"));
}

}  // namespace
}  // namespace gradsync::tools
