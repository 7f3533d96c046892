#include "tools/tables/grid_outliers.h"

#include <gtest/gtest.h>

namespace gradsync::tools {
namespace {

// Batch sizes 2 and 4 by sequences of 128, 256 and 512, of a grid "g".
void AddSeries(const std::string& series, const std::vector<double>& steps_s, std::vector<GridCell>* cells) {
  size_t i = 0;
  for (const double batch_size : {2.0, 4.0}) {
    for (const double seq_len : {128.0, 256.0, 512.0}) {
      if (i < steps_s.size()) cells->push_back({"g", series, batch_size, seq_len, steps_s[i++]});
    }
  }
}

std::vector<size_t> OutliersOf(const std::vector<GridCell>& cells) {
  const std::vector<bool> is_outlier = OutlierCells(cells);
  std::vector<size_t> outliers;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (is_outlier[i]) outliers.push_back(i);
  }
  return outliers;
}

const std::vector<double> kSteady = {0.72, 0.73, 0.77, 0.73, 0.76, 0.95};
const std::vector<double> kOneTwiceAsSlow = {0.83, 0.80, 0.91, 0.80, 0.88, 1.96};

TEST(GridOutliersTest, FindsTheCellAmongItsNeighbours) {
  std::vector<GridCell> cells;
  AddSeries("flat", kOneTwiceAsSlow, &cells);
  EXPECT_EQ(OutliersOf(cells), (std::vector<size_t>{5}));
}

TEST(GridOutliersTest, FindsItAmongStrategies) {
  std::vector<GridCell> cells;
  AddSeries("overlap", kSteady, &cells);
  AddSeries("flat", kOneTwiceAsSlow, &cells);
  EXPECT_EQ(OutliersOf(cells), (std::vector<size_t>{11}));
}

TEST(GridOutliersTest, WhatIsSlowForEveryStrategyIsNoOutlier) {
  std::vector<GridCell> cells;
  AddSeries("flat", kOneTwiceAsSlow, &cells);
  AddSeries("naive", {0.90, 0.87, 0.99, 0.86, 0.95, 2.1}, &cells);
  EXPECT_EQ(OutliersOf(cells), (std::vector<size_t>{}));
}

TEST(GridOutliersTest, StepsThatGrowWithTheTokensAreNone) {
  std::vector<GridCell> cells;
  AddSeries("flat", {0.3, 0.55, 1.1, 0.56, 1.05, 2.2}, &cells);
  EXPECT_EQ(OutliersOf(cells), (std::vector<size_t>{}));
}

TEST(GridOutliersTest, FewCellsHaveNone) {
  std::vector<GridCell> cells;
  AddSeries("flat", {0.3, 0.3, 3.0, 0.3}, &cells);
  EXPECT_EQ(OutliersOf(cells), (std::vector<size_t>{}));
}

}  // namespace
}  // namespace gradsync::tools
