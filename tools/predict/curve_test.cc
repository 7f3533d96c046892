#include "tools/predict/curve.h"

#include <gtest/gtest.h>

#include "model/error.h"

namespace gradsync::tools {
namespace {

TEST(CurveTest, IsLinearBetweenMeasuredSizes) {
  const Curve curve({{400, 8}, {100, 2}, {200, 3}});
  EXPECT_DOUBLE_EQ(curve.TimeAt(100), 2);
  EXPECT_DOUBLE_EQ(curve.TimeAt(150), 2.5);
  EXPECT_DOUBLE_EQ(curve.TimeAt(200), 3);
  EXPECT_DOUBLE_EQ(curve.TimeAt(300), 5.5);
  EXPECT_DOUBLE_EQ(curve.RatioAt(300), 5.5);
}

TEST(CurveTest, TakesTheMeanOfOneSize) { EXPECT_DOUBLE_EQ(Curve({{100, 2}, {100, 6}}).TimeAt(100), 4); }

TEST(CurveTest, ExtrapolatesTimesByLatencyBelowAndRateAbove) {
  const Curve curve({{100, 2}, {200, 3}});  // 1 + bytes / 100
  EXPECT_DOUBLE_EQ(curve.TimeAt(0), 1);
  EXPECT_DOUBLE_EQ(curve.TimeAt(50), 1.5);
  EXPECT_DOUBLE_EQ(curve.TimeAt(400), 6);
  // A line that would be negative at 0 is not followed.
  EXPECT_DOUBLE_EQ((Curve({{100, 1}, {200, 3}}).TimeAt(10)), 0.1);
  EXPECT_DOUBLE_EQ((Curve({{100, 1}}).TimeAt(10)), 0.1);
}

TEST(CurveTest, KeepsRatiosOutsideMeasuredSizes) {
  const Curve curve({{100, 2}, {200, 3}});
  EXPECT_DOUBLE_EQ(curve.RatioAt(10), 2);
  EXPECT_DOUBLE_EQ(curve.RatioAt(1000), 3);
}

TEST(CurveTest, ScalesValues) { EXPECT_DOUBLE_EQ(Curve({{100, 2}, {200, 3}}).Scaled(2).TimeAt(150), 5); }

TEST(CurveTest, RefusesNoPoints) { EXPECT_THROW(Curve({}), InvalidInput); }

}  // namespace
}  // namespace gradsync::tools
