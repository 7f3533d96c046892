#include "tools/render/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  return GridOf(ChoicesOf(t.cells), 1).rows[0];
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

TEST(GridTest, HeadingsTakeNoColumnItsRoom) {
  const std::string heading(60, 'h'), name(30, 'n'), last(34, 'x');
  const Grid grid{.over = {"", heading, "", ""}, .rows = {{name, "gloo", "shm", last}}};
  EXPECT_TRUE(grid.fits());
  const Lines lines = LinesOf(grid);
  EXPECT_THAT(lines[0], ::testing::EndsWith("h"));
  EXPECT_EQ(lines[0].size(), 32u + 60);
  const Grid full{.over = {"", "", heading}, .rows = {{name, last, last + last, "y"}}};
  EXPECT_THAT(LinesOf(full)[1], ::testing::HasSubstr(last));
  for (const std::string& line : LinesOf(full)) EXPECT_LE(line.size(), 112u) << line;
}

}  // namespace
}  // namespace gradsync::tools
