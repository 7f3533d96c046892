#include "tools/reports/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/scale.h"
#include "tools/reports/svg.h"
#include "tools/reports/test_xml.h"

namespace gradsync::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> Labels(const Scale& scale) {
  std::vector<std::string> labels;
  for (const Tick& tick : scale.ticks()) labels.push_back(tick.label);
  return labels;
}

Scale LinearTo100(double low, double high, Scale::Ends ends = Scale::Ends::kExact) {
  return Scale::Linear(low, high, 0, 100, 5, ends);
}

Scale LogTo100(double low, double high) { return Scale::Log(low, high, 0, 100, 5); }

TEST(ScaleTest, PutsValuesInProportion) {
  const Scale scale = Scale::Linear(10, 30, 100, 0, 5, Scale::Ends::kExact);
  EXPECT_DOUBLE_EQ(scale(10), 100);
  EXPECT_DOUBLE_EQ(scale(15), 75);
  EXPECT_DOUBLE_EQ(scale(30), 0);
  EXPECT_DOUBLE_EQ(scale(99), 0);  // what is beyond an end lies at it
}

TEST(ScaleTest, TicksAreRoundNumbersWithTheDecimalsTheyNeed) {
  EXPECT_THAT(Labels(LinearTo100(0, 100)), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(Labels(LinearTo100(0, 0.9)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8"));
  EXPECT_THAT(Labels(LinearTo100(-12, 31)), ElementsAre("−10", "0", "10", "20", "30"));
  EXPECT_THAT(Labels(LinearTo100(0, 4e6)), ElementsAre("0", "1000000", "2000000", "3000000", "4000000"));
}

TEST(ScaleTest, MayGoOnToTheNextTick) {
  const Scale scale = LinearTo100(3, 47, Scale::Ends::kTicks);
  EXPECT_EQ(scale.low(), 0);
  EXPECT_EQ(scale.high(), 50);
}

TEST(ScaleTest, OneValueGetsARangeAroundIt) {
  for (const double value : {0.0, 7.0, -7.0, 1e-30, 1e99}) {
    const Scale scale = LinearTo100(value, value);
    EXPECT_NEAR(scale(value), 50, 1e-6) << value;
    EXPECT_THAT(scale.ticks(), Not(IsEmpty())) << value;
  }
  EXPECT_NEAR(LogTo100(5, 5)(5), 50, 1e-6);
  EXPECT_THAT(LogTo100(5, 5).ticks(), Not(IsEmpty()));
}

TEST(ScaleTest, LogarithmsHavePowersOfTenAndSomeOfThemWhereThereAreMany) {
  EXPECT_THAT(Labels(LogTo100(1, 1000)), ElementsAre("1", "10", "100", "1000"));
  EXPECT_THAT(Labels(LogTo100(20, 300)), ElementsAre("20", "50", "100", "200"));
  EXPECT_THAT(Labels(LogTo100(6.1, 6.9)), ElementsAre("6.2", "6.4", "6.6", "6.8"));
  const Scale huge = LogTo100(1e-90, 1e90);
  EXPECT_THAT(Labels(huge), SizeIs(::testing::AllOf(::testing::Ge(3u), ::testing::Le(6u))));
  EXPECT_DOUBLE_EQ(LogTo100(1, 100)(10), 50);
}

TEST(ScaleTest, NeverHasManyTicksWhateverTheRange) {
  for (const double high : {1e-99, 1.1e-3, 0.999, 1.0, 7.3, 1e5, 9.9e99}) {
    EXPECT_LE(LinearTo100(0, high).ticks().size(), 10u) << high;
    EXPECT_GE(LinearTo100(0, high).ticks().size(), 2u) << high;
    EXPECT_LE(LinearTo100(-high, high, Scale::Ends::kTicks).ticks().size(), 10u) << high;
  }
}

TEST(ScaleTest, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(LinearTo100(0, kInfinity), InvalidInput);
  EXPECT_THROW(LinearTo100(std::nan(""), 1), InvalidInput);
  EXPECT_THROW(LinearTo100(-1e300, 1e300), InvalidInput);
  EXPECT_THROW(LogTo100(0, 1), InvalidInput);
}

TEST(SvgTest, EscapesTextTipsAndLabels) {
  Svg svg(10, 10, "<a> & 'b'");
  svg.Text("name", 1, 2, "start", "x < y & \"z\"", "</title><script>");
  const std::vector<XmlElement> elements = ParseXml(svg.Finish());
  EXPECT_EQ(elements[0].Attribute("aria-label"), "<a> & 'b'");
  EXPECT_EQ(elements[1].text, "x < y & \"z\"");
  EXPECT_EQ(elements[1].tip, "</title><script>");
}

LineChart TwoLines() {
  return {.title = "title",
          .x_label = "size",
          .y_label = "speed",
          .reference = 0,
          .series = {{"one", {{1, {10, {8, 12}}, "first"}, {2, {20}}}}, {"two", {{1, {20}}, {2, {20}}}}}};
}

TEST(LineChartTest, PutsPointsInProportionAndSaysTheirValues) {
  const std::vector<XmlElement> elements = ParseXml(DrawLines(TwoLines()).Finish());
  const std::vector<XmlElement> markers = WithClass(elements, "marker");
  ASSERT_THAT(markers, SizeIs(4));
  EXPECT_EQ(markers[0].tip, "first");
  // y from 0 to 20, so that 10 lies half way between the axis' ends.
  const std::vector<XmlElement> grid = WithClass(elements, "grid");
  EXPECT_NEAR(markers[0].Number("cy"), (grid.front().Number("y1") + grid.back().Number("y1")) / 2, 0.02);
  EXPECT_NEAR(markers[1].Number("cy"), grid.back().Number("y1"), 0.02);
  EXPECT_THAT(WithClass(elements, "line"), SizeIs(2));
}

TEST(LineChartTest, LeavesOutWhatCannotBeDrawn) {
  for (const double bad : {std::nan(""), kInfinity, -kInfinity, 1e200}) {
    LineChart chart = TwoLines();
    chart.series.resize(1);
    chart.series[0].points = {{1, {1}}, {2, {2}}, {3, {bad}}, {4, {4}}, {5, {5}}};
    const std::string svg = DrawLines(chart).Finish();
    EXPECT_THAT(WithClass(ParseXml(svg), "marker"), SizeIs(4));
    EXPECT_THAT(WithClass(ParseXml(svg), "line"), SizeIs(1));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

TEST(LineChartTest, ALogarithmicAxisLeavesOutZero) {
  LineChart chart = TwoLines();
  chart.log_x = true;
  chart.series[0].points[1].x = 0;
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "marker"), SizeIs(3));
}

TEST(LineChartTest, DrawsOnePointEqualValuesAndNone) {
  LineChart chart = TwoLines();
  chart.series.resize(1);
  chart.series[0].points = {{3, {5, {4, 6}}}};
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "marker"), SizeIs(1));
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "band-line"), SizeIs(1));
  chart.series[0].points = {{3, {0}}, {3, {0}}};
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "marker"), SizeIs(2));
  chart.series[0].points = {{3, {std::nan("")}}};
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "marker"), IsEmpty());
  chart.series.clear();
  EXPECT_THAT(WithClass(ParseXml(DrawLines(chart).Finish()), "tick"), Not(IsEmpty()));
}

TEST(LineChartTest, AKeyHasEachNameOnceWithItsOwnMark) {
  const std::vector<KeyEntry> key = SeriesKey({TwoLines(), TwoLines()});
  ASSERT_THAT(key, SizeIs(2));
  EXPECT_EQ(key[1].text, "two");
  const std::vector<XmlElement> mark = ParseXml(key[1].mark.Finish());
  EXPECT_THAT(WithClass(mark, "c-2"), SizeIs(2));
  EXPECT_EQ(WithClass(mark, "marker").at(0).name, "rect");  // the second shape
}

TEST(LineChartTest, ABandGoesThroughItsEnds) {
  LineChart chart = TwoLines();
  chart.series[0].points[1].y.interval = {18, 22};
  const std::vector<XmlElement> bands = WithClass(ParseXml(DrawLines(chart).Finish()), "band");
  ASSERT_THAT(bands, SizeIs(1));
  EXPECT_TRUE(bands[0].HasClass("c-1"));
  const std::string points = bands[0].Attribute("points");
  EXPECT_EQ(std::count(points.begin(), points.end(), ','), 4) << points;
}

TEST(LineChartTest, BothAxesMayBeLogarithmic) {
  LineChart chart = TwoLines();
  chart.log_x = chart.log_y = true;
  chart.reference = kNaN;
  chart.series.resize(1);
  chart.series[0].points = {{1, {1}}, {10, {10}}, {100, {100}}, {200, {0}}};
  const std::vector<XmlElement> markers = WithClass(ParseXml(DrawLines(chart).Finish()), "marker");
  ASSERT_THAT(markers, SizeIs(3));
  EXPECT_NEAR(markers[1].Number("cy"), (markers[0].Number("cy") + markers[2].Number("cy")) / 2, 0.02);
}

RowChart TwoRows() {
  return {.title = "title",
          .x_label = "time",
          .rows = {{.name = "naive",
                    .value = "40 ms",
                    .parts = {{"exposed", 30, "naive, exposed"}, {"tax", 10}},
                    .at = {40}},
                   {.heading = "group",
                    .name = "core",
                    .value = "15 ms",
                    .style = "faster",
                    .parts = {{"exposed", 20}, {"rest", -5}},
                    .at = {15, {10, 20}},
                    .tip = "core's"}}};
}

TEST(RowChartTest, PartsAreAsLongAsTheirValuesAndLieOnTheirSideOfZero) {
  const std::vector<XmlElement> elements = ParseXml(DrawRows(TwoRows()).Finish());
  const std::vector<XmlElement> parts = WithClass(elements, "part");
  ASSERT_THAT(parts, SizeIs(4));
  const double unit = parts[0].Number("width") / 30, zero = WithClass(elements, "zero").at(0).Number("x1");
  EXPECT_NEAR(parts[0].Number("x"), zero, 0.02);
  EXPECT_NEAR(parts[1].Number("x"), zero + 30 * unit, 0.02);
  EXPECT_NEAR(parts[1].Number("width"), 10 * unit, 0.02);
  EXPECT_NEAR(parts[3].Number("x"), zero - 5 * unit, 0.02);
  EXPECT_NEAR(parts[3].Number("width"), 5 * unit, 0.02);
  EXPECT_EQ(parts[0].tip, "naive, exposed");
}

TEST(RowChartTest, DrawsMarksIntervalsAndGroups) {
  const std::vector<XmlElement> elements = ParseXml(DrawRows(TwoRows()).Finish());
  EXPECT_THAT(WithClass(elements, "mark"), SizeIs(2));
  const std::vector<XmlElement> interval = WithClass(elements, "interval");
  ASSERT_THAT(interval, SizeIs(3));  // with its ends
  EXPECT_TRUE(interval[0].HasClass("faster"));
  const double unit = WithClass(elements, "part").at(0).Number("width") / 30;
  EXPECT_NEAR(interval[0].Number("x2") - interval[0].Number("x1"), 10 * unit, 0.02);
  ASSERT_THAT(WithClass(elements, "heading"), SizeIs(1));
  // The group's row begins below it.
  const std::vector<XmlElement> names = WithClass(elements, "name");
  EXPECT_GT(names[1].Number("y"), WithClass(elements, "heading")[0].Number("y"));
  EXPECT_GT(WithClass(elements, "heading")[0].Number("y"), names[0].Number("y"));
}

// A line through the minus sign of a value makes it a plus.
TEST(RowChartTest, TheLineAtZeroLeavesTextAlone) {
  const std::vector<XmlElement> elements = ParseXml(DrawRows(TwoRows()).Finish());
  const std::vector<XmlElement> zeros = WithClass(elements, "zero"), values = WithClass(elements, "value"),
                                names = WithClass(elements, "name");
  ASSERT_THAT(zeros, SizeIs(2));
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_GT(zeros[row].Number("y1"), values[row].Number("y"));
    EXPECT_GT(zeros[row].Number("y2"), zeros[row].Number("y1"));
  }
  constexpr double kCapitalHeight = 9;
  EXPECT_LT(zeros[0].Number("y2"), names[1].Number("y") - kCapitalHeight);
}

TEST(RowChartTest, ALongLabelLeavesRoomForThoseAtItsSides) {
  RowChart chart = TwoRows();
  chart.left_label = "faster";
  chart.right_label = "slower";
  chart.x_label = "% of the step of core:bucket_bytes=4Gi,small_first=0,small_last=0";
  const std::vector<XmlElement> labels = WithClass(ParseXml(DrawRows(chart).Finish()), "axis");
  ASSERT_THAT(labels, SizeIs(3));
  EXPECT_LE(TextWidth(labels[0].text) / 2, kChartWidth / 2 - TextWidth("faster"));
  EXPECT_GT(labels[0].text.size(), 20);
  EXPECT_EQ(labels[0].tip, chart.x_label);
}

TEST(RowChartTest, ChartsCanShareAnAxis) {
  RowChart narrow = TwoRows();
  narrow.rows.resize(1);
  narrow.range.low = -40;
  const std::vector<XmlElement> elements = ParseXml(DrawRows(narrow).Finish());
  EXPECT_NEAR(WithClass(elements, "zero").at(0).Number("x1"), kChartWidth / 2, 0.02);
  EXPECT_EQ(RangeOf(TwoRows().rows), (Interval{-5, 40}));
}

TEST(RowChartTest, LeavesOutWhatCannotBeDrawn) {
  RowChart chart = TwoRows();
  chart.rows[0].parts[0].value = kNaN;
  chart.rows[0].at.value = kInfinity;
  chart.rows[1].at.interval.low = kNaN;
  const std::string svg = DrawRows(chart).Finish();
  const std::vector<XmlElement> elements = ParseXml(svg);
  EXPECT_THAT(WithClass(elements, "part"), SizeIs(3));
  EXPECT_THAT(WithClass(elements, "mark"), SizeIs(1));
  EXPECT_THAT(WithClass(elements, "interval"), IsEmpty());
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_NO_THROW(ParseXml(DrawRows({}).Finish()));
}

TEST(RowChartTest, ValuesStandBelowNamesThatLeaveThemNoRoom) {
  RowChart chart = TwoRows();
  chart.rows[1].value = "+13.4 % [+10.4, +16.4]";
  const std::vector<XmlElement> beside = ParseXml(DrawRows(chart).Finish());
  const XmlElement short_name = WithClass(beside, "name")[1], value = WithClass(beside, "value")[1];
  EXPECT_EQ(value.Number("y"), short_name.Number("y"));
  EXPECT_LE(TextWidth(short_name.text), value.Number("x"));

  chart.rows[0].name = "core:bucket_elements=7Mi,small_first=0,small_last=0";
  const std::vector<XmlElement> elements = ParseXml(DrawRows(chart).Finish());
  const std::vector<XmlElement> names = WithClass(elements, "name"), values = WithClass(elements, "value"),
                                zeros = WithClass(elements, "zero");
  EXPECT_EQ(names[0].text, chart.rows[0].name);
  for (size_t row = 0; row < 2; ++row) {
    EXPECT_EQ(values[row].Number("x"), 0);
    EXPECT_EQ(values[row].Number("y"), names[row].Number("y") + 15);
    EXPECT_GT(zeros[row].Number("y1"), values[row].Number("y"));
  }
  EXPECT_LT(zeros[0].Number("y2"), names[1].Number("y"));
  EXPECT_EQ(WithClass(elements, "axis")[0].Number("y"), WithClass(beside, "axis")[0].Number("y") + 30);
}

TEST(RowChartTest, CutsNamesThatAreWiderThanTheChartAndKeepsThemInTips) {
  RowChart chart = TwoRows();
  chart.rows[0].name = "a strategy with a very, very long name, which goes on and on";
  const std::vector<XmlElement> names = WithClass(ParseXml(DrawRows(chart).Finish()), "name");
  EXPECT_EQ(names[0].text, "a strategy with a very, very long name, which goes …");
  EXPECT_EQ(names[0].tip, chart.rows[0].name);
}

TEST(MapChartTest, HasACellForEachRowAndColumn) {
  const MapChart chart{
      .title = "map",
      .columns = {"gloo", "200 Mbit/s"},
      .rows = {{"topk", {{"slower", "+54", "±5", "tip"}, {"faster", "−89", "±1"}}},
               {"zero1", {{}, {"open", "+1", "±6"}}}},
      .note = std::string(50, 'n') + " " + std::string(50, 'o') + " " + std::string(50, 'p') + " last"};
  const Svg map = DrawMap(chart);
  const std::vector<XmlElement> elements = ParseXml(map.Finish());
  // Of the note, however long it is, nothing is cut off.
  EXPECT_EQ(elements.back().text, "last");
  EXPECT_LT(elements.back().Number("y") + 3, map.height());
  const std::vector<XmlElement> cells = WithClass(elements, "cell");
  ASSERT_THAT(cells, SizeIs(4));
  EXPECT_TRUE(cells[0].HasClass("slower"));
  EXPECT_EQ(cells[0].tip, "tip");
  EXPECT_EQ(cells[1].Number("y"), cells[0].Number("y"));
  EXPECT_EQ(cells[3].Number("x"), cells[1].Number("x"));
  EXPECT_GT(cells[3].Number("y"), cells[1].Number("y"));
  std::vector<std::string> words;
  for (const XmlElement& word : WithClass(elements, "axis")) words.push_back(word.text);
  EXPECT_THAT(words, ::testing::IsSupersetOf({"gloo", "200", "Mbit/s"}));
}

TEST(SvgTest, BreaksAParagraphBetweenWords) {
  Svg svg(100, 100, "");
  const double next = svg.Paragraph("p", 0, 10, TextWidth("two words"), kFontSize, "two words and more");
  const std::vector<XmlElement> lines = WithClass(ParseXml(svg.Finish()), "p");
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].text, "two words");
  EXPECT_EQ(lines[1].text, "and more");
  EXPECT_NEAR(next - lines[1].Number("y"), lines[1].Number("y") - lines[0].Number("y"), 0.02);
}

}  // namespace
}  // namespace gradsync::tools
