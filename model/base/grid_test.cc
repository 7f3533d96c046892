#include "model/base/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace gradsync {
namespace {

// Whatever the room, a grid keeps to it: first what comes last gives way, then all.
TEST(GridTest, TakesNoMoreLinesThanItMay) {
  Grid grid{.rows = {{"", "gloo"}}, .num_last = 4};
  for (int i = 0; i < 12; ++i) grid.rows.push_back({"row" + std::to_string(i), "1"});
  for (size_t most = 0; most <= 20; ++most) {
    Lines lines = {"above"};
    grid.AddTo(most, &lines);
    EXPECT_EQ(lines.size() - 1, most < 3 ? 0 : std::min<size_t>(most, 13)) << most;
    if (most < 3) continue;
    EXPECT_EQ(lines[1], "       gloo") << most;
    EXPECT_EQ(lines[2].substr(0, 4), "row0") << most;
    EXPECT_EQ(lines.back().substr(0, 5), most < 8 ? "not s" : "row11") << most;
  }
}

// Names are cut before columns are left out, and never below 34 characters.
TEST(GridTest, WhatDoesNotFitIsLeftOut) {
  const std::string name(90, 'n'), wide(34, 'x');
  const auto first_line = [&](const std::vector<std::string>& row) {
    Lines lines;
    Grid{.rows = {row}}.AddTo(1, &lines);
    return lines.at(0);
  };
  EXPECT_EQ(first_line({name, "gloo", "shm"}), name + "  gloo  shm");
  EXPECT_THAT(first_line({name, wide}), ::testing::EndsWith("nnn…  " + wide));
  EXPECT_EQ(first_line({std::string(34, 'n'), wide, wide, "last"}),
            std::string(34, 'n') + "  " + wide + "  " + wide);
  EXPECT_TRUE((Grid{.rows = {{name, "gloo"}}}).fits());
  EXPECT_FALSE((Grid{.rows = {{name, wide, wide, "last"}}}).fits());
}

TEST(GridTest, NumbersEndInLine) {
  EXPECT_EQ(
      (Grid{.rows = {{"", "unit", "ms"}, {"forward", "a", "9.5"}, {"sum", "bb", "110.5"}}, .num_left = 2})
          .ToString(),
      "         unit     ms\n"
      "forward  a       9.5\n"
      "sum      bb    110.5\n");
}

TEST(TextTest, GoesOnBehindItsHead) {
  Lines lines;
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  AddText("head  ", words, 2, &lines, " \\");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], ::testing::MatchesRegex("head  (word )+\\\\"));
  EXPECT_THAT(lines[1], ::testing::MatchesRegex("      (word )+…"));
}

}  // namespace
}  // namespace gradsync
