#include "model/base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace gradsync {
namespace {

using Values = std::vector<double>;

TEST(StatisticsTest, MeanAndDeviations) {
  const Values values = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(Mean(values), 5);
  EXPECT_DOUBLE_EQ(PopulationStd(values), 2);
}

TEST(StatisticsTest, TooFewValuesHaveNoStatistic) {
  EXPECT_TRUE(std::isnan(Mean({})));
  EXPECT_TRUE(std::isnan(Median({})));
  EXPECT_TRUE(std::isnan(PopulationStd({})));
  EXPECT_TRUE(std::isnan(TrimmedMean({})));
  EXPECT_EQ(PopulationStd(Values{1}), 0);
  EXPECT_EQ(Percentile(Values{3}, 0.99), 3);
}

TEST(StatisticsTest, PercentilesInterpolateAsNumpyDoes) {
  const Values values = {40, 15, 50, 20, 35};  // sorted: 15 20 35 40 50
  EXPECT_DOUBLE_EQ(Median(values), 35);
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 15);
  EXPECT_DOUBLE_EQ(Percentile(values, 1), 50);
  EXPECT_DOUBLE_EQ(Percentile(values, 0.4), 29);   // index 1.6: 20 + 0.6 * 15
  EXPECT_DOUBLE_EQ(Percentile(values, 0.95), 48);  // index 3.8: 40 + 0.8 * 10
  EXPECT_DOUBLE_EQ(Median(Values{1, 2, 3, 10}), 2.5);
}

TEST(StatisticsTest, OutliersAreFarFromTheMedian) {
  Values values(50, 1.0);
  for (size_t i = 0; i < values.size(); ++i) values[i] += 0.01 * static_cast<double>(i % 5);
  EXPECT_EQ(CountOutliers(values, 10, 0.05), 0u);
  values[7] = 2.0;
  values[9] = 0.1;
  EXPECT_EQ(CountOutliers(values, 10, 0.05), 2u);
  // Constant but for 1 %: the deviation is zero, and still this is no outlier.
  EXPECT_EQ(CountOutliers(Values{1, 1, 1, 1, 1.01}, 10, 0.05), 0u);
  EXPECT_EQ(CountOutliers(Values{1, 1, 1, 1, 1.5}, 10, 0.05), 1u);
  EXPECT_EQ(CountOutliers({}, 10, 0.05), 0u);
}

// 3 beyond the median is 3 to 10 deviations from it, and 12 is more than 10.
TEST(StatisticsTest, AnOutlierLiesBeyondTheDeviationsGiven) {
  const Values values = {99, 100, 101, 99, 100, 101, 99, 100, 101, 105, 120};
  EXPECT_EQ(CountOutliers(values, 10, 0), 1u);
  EXPECT_EQ(CountOutliers(values, 3, 0), 2u);
}

TEST(StatisticsTest, ATrimmedMeanLeavesAFifthOutAtEachEnd) {
  EXPECT_DOUBLE_EQ(TrimmedMean(Values{5, 1, 2, 3, 1000}), 10.0 / 3);
  EXPECT_DOUBLE_EQ(TrimmedMean(Values{5, 1, 2, 4}), 3);  // a fifth of four is none
  EXPECT_DOUBLE_EQ(TrimmedMean(Values{5, 1, 2, 3, 1000}, 0), 1011.0 / 5);
}

}  // namespace
}  // namespace gradsync
