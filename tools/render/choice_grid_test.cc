#include "tools/render/choice_grid.h"

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
  return MakeGrid(MakeChoices(t.settings), 1).rows[0];
}

TEST(ChoiceGridTest, BaselinesOverOneBackendAreTold) {
  const Measurement small = Steady("core:bucket_bytes=1Mi", Wobble(100, 24, 1), Buckets(1 << 20)),
                    large = Steady("core:bucket_bytes=4Mi", Wobble(110, 24, 2), Buckets(4 << 20)),
                    in_shm = Steady("core:bucket_bytes=4Mi@shm", Wobble(90, 24, 3), Buckets(4 << 20));
  EXPECT_THAT(HeadsOf({{small, large, in_shm}}),
              ElementsAre("small, batch 2, sequence 128", "gloo, 1MiB", "gloo, 4MiB", "shm"));
  EXPECT_THAT(HeadsOf({{small, in_shm}}), ElementsAre("small, batch 2, sequence 128", "gloo", "shm"));
}

TEST(ChoiceGridTest, SettingsAreToldByWhatDiffers) {
  EXPECT_THAT(HeadsOf({{AtPlace("core", 1, 64, 1), AtPlace("naive", 1, 64, 2)},
                       {AtPlace("core", 2, 64, 1), AtPlace("naive", 2, 64, 2)}}),
              ElementsAre("", "b1 gloo", "b2 gloo"));
}

// With a batch of 1 zero1 is fastest, with a batch of 2 core is.
TEST(ChoiceGridTest, StarsBestRowsAndFloorsBelongToTheirSetting) {
  const auto group = [](int64_t batch_size, double floor_ms, double zero1_ms) {
    const Change at = [batch_size](bench::Record& record) { record.config.Set("batch_size", batch_size); };
    return Group{Steady("none", Wobble(floor_ms, 24, 0), at), Steady("core", Wobble(100, 24, 1), at),
                 Steady("naive", Wobble(150, 24, 2), at), Steady("zero1", Wobble(zero1_ms, 24, 3), at)};
  };
  const Tabled t({group(1, 60, 80), group(2, 70, 120)});
  const Grid grid = MakeGrid(MakeChoices(t.settings), 1);
  std::map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> names;
  for (const std::vector<std::string>& row : grid.rows) {
    names.push_back(row[0]);
    rows[row[0]] = {row.begin() + 1, row.end()};
  }
  EXPECT_THAT(names, ElementsAre("", "core", "zero1", "naive", "no synchronisation", "the baseline adds",
                                 "the fastest adds"));
  EXPECT_EQ(grid.num_last, 3u);
  using ::testing::ContainsRegex;
  EXPECT_THAT(rows["core"], ElementsAre(ContainsRegex("^[19][0-9.]+ ms$"), ContainsRegex("^[19].* ms [*]$")));
  EXPECT_THAT(rows["zero1"], ElementsAre(ContainsRegex("^-.*\\] [*]$"), ContainsRegex("^\\+.*\\]$")));
  EXPECT_THAT(rows["no synchronisation"], ElementsAre(ContainsRegex("^(59|60)"), ContainsRegex("^(69|70)")));
  EXPECT_THAT(rows["the baseline adds"], ElementsAre("38 to 42 ms", "28 to 32 ms"));
  EXPECT_THAT(rows["the fastest adds"], ElementsAre("19.5 to 20.6 ms", "28 to 32 ms"));
}

// An interval to both sides contains 0, and the advice rests on a bound to one side: the cell has that bound,
// rounded towards 0 as in the sentence. Where the interval shows the difference, both have its end.
TEST(ChoiceGridTest, ACellHasTheBoundThatTheAdviceRestsOn) {
  const auto grid_of = [](const Measurement& core, double zero1_ms) {
    const Tabled t({{core, Steady("zero1", Wobble(zero1_ms, 24, 1)), Steady("naive", Wobble(150, 24, 3)),
                     Steady("flat", Wobble(150, 24, 4))}});
    const std::vector<Choice> choices = MakeChoices(t.settings);
    std::vector<std::string> texts = {WriteSentence(choices[0])};
    for (const std::vector<std::string>& row : MakeGrid(choices, 1).rows)
      texts.push_back(row[0] + " " + row[2]);
    return texts;
  };
  using ::testing::Contains;
  using ::testing::MatchesRegex;
  const std::vector<std::string> by_bound = grid_of(Steady("core", WithWideNoise(108)), 100);
  EXPECT_THAT(by_bound[0], MatchesRegex("Use zero1: at least 0\\.[0-9]+ % faster than core"));
  EXPECT_THAT(by_bound, Contains(MatchesRegex("zero1 -[0-9.]+ \\[<= -0\\.[0-9]\\] \\*")));
  EXPECT_THAT(by_bound, Contains(MatchesRegex("naive \\+[0-9.]+ \\[[0-9.]+, [0-9.]+\\]")));
  const std::vector<std::string> by_interval = grid_of(Steady("core", Wobble(108, 24, 2)), 100);
  EXPECT_THAT(by_interval, Contains(MatchesRegex("zero1 -[0-9.]+ \\[-[0-9.]+, -[0-9.]+\\] \\*")));
  // A bound never becomes larger by rounding.
  const Tabled t({{Steady("core", WithWideNoise(108)), Steady("zero1", Wobble(100, 24, 1))}});
  std::vector<Choice> choices = MakeChoices(t.settings);
  choices[0].bounds[choices[0].Find("zero1")] = -0.01969;
  EXPECT_THAT(MakeGrid(choices, 1).rows[2][2], ::testing::HasSubstr(" [<= -1.9]"));
  // The baseline is the fastest: the rows that it leads have the bounds.
  const std::vector<std::string> of_rows = grid_of(Steady("core", WithWideNoise(90.5)), 100);
  EXPECT_THAT(of_rows[0], MatchesRegex("Use core: all other exact rows take at least [0-9.]+ % longer"));
  EXPECT_THAT(of_rows, Contains(MatchesRegex("zero1 \\+[0-9.]+ \\[>= [0-9.]+\\]")));
}

}  // namespace
}  // namespace gradsync::tools
