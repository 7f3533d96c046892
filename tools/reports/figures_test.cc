#include "tools/reports/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tools/records/test_records.h"
#include "tools/reports/charts.h"
#include "tools/reports/report.h"
#include "tools/reports/test_reports.h"
#include "tools/reports/test_xml.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> TipsOf(const std::vector<XmlElement>& elements) {
  std::vector<std::string> tips;
  for (const XmlElement& element : elements) {
    if (!element.tip.empty()) tips.push_back(element.tip);
  }
  return tips;
}

std::vector<XmlElement> FigureOf(const std::string& test, const std::vector<Record>& records,
                                 const char* id) {
  return In(ParseXml(ReportOn(DirectoryWith(test, records)).page), id);
}

// The marks of a figure but for its key, and where they lie on an axis that two of them define.
std::map<std::string, double> LengthsOf(const std::vector<XmlElement>& parts) {
  std::map<std::string, double> lengths;  // by what the tips begin with
  for (const XmlElement& part : parts) {
    if (!part.tip.empty()) lengths[part.tip.substr(0, part.tip.find(':'))] = part.Number("width");
  }
  return lengths;
}

// A step of core over gloo takes 110 ms. It computes for 80 ms, 20 more than `none`, and waits for 20 ms.
TEST(CostFigureTest, CutsTheFloorAwayAndShowsThePartsOfTheRest) {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("naive", "gloo", 60, 60, &records);
  AddVariant("core", "gloo", 80, 20, &records);
  const std::vector<XmlElement> figure = FigureOf("report_parts", records, "figure-cost");
  const std::map<std::string, double> lengths = LengthsOf(WithClass(figure, "part"));
  const double ms = lengths.at("naive, exposed") / 60;
  EXPECT_NEAR(lengths.at("core, tax") / ms, 20, 1);
  EXPECT_NEAR(lengths.at("core, exposed") / ms, 20, 1);
  EXPECT_FALSE(lengths.contains("none, exposed"));
  // The cheapest first.
  EXPECT_THAT(TextsOf(WithClass(figure, "name")), ElementsAre("core", "naive"));
  EXPECT_THAT(TextsOf(WithClass(figure, "value")),
              ElementsAre(::testing::ContainsRegex("^(39|40)\\.[0-9] ms \\[3.*, 4"), StartsWith("60.")));
  EXPECT_THAT(
      TextsOf(WithClass(figure, "value")),
      ::testing::Each(::testing::ContainsRegex("^[0-9]+[.][0-9] ms \\[[0-9]+[.][0-9], [0-9]+[.][0-9]\\]$")));
  // The mark lies where the parts end.
  const std::vector<XmlElement> marks = WithClass(figure, "mark");
  ASSERT_THAT(marks, SizeIs(2));
  EXPECT_THAT(marks[0].tip, StartsWith("core@gloo: step 110.3 ms, cost 40.1 ms ["));
  for (const auto& [style, count] : {std::pair{"exposed", 2}, {"tax", 2}, {"own", 2}, {"rest", 2}})
    EXPECT_GE(WithClass(figure, style).size(), 1u) << style;
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre(HasSubstr("core costs ")));
  // Not where others disturb the floor.
  for (Record& record : records) {
    if (record.variant.strategy == "none")
      record.samples["others_cpu_ns"] = Repeat(int64_t{1} << 30, record.samples["step_ns"].size());
  }
  EXPECT_THAT(TextsOf(WithClass(FigureOf("report_parts", records, "figure-cost"), "figure-title")),
              ElementsAre(HasSubstr("Against core: ")));
}

TEST(CostFigureTest, BackendsStandSideBySideOnOneScale) {
  const std::vector<XmlElement> figure = FigureOf("report_backends", EveryExperiment(), "figure-cost");
  EXPECT_THAT(TextsOf(WithClass(figure, "chart-title")),
              ElementsAre(StartsWith("over gloo: core costs "), StartsWith("over shm: core costs ")));
  EXPECT_THAT(WithClass(figure, "pairs"), SizeIs(1));
  std::vector<double> waits;  // of naive: 60 ms over gloo, 30 over shm
  for (const XmlElement& part : WithClass(figure, "part")) {
    if (part.tip.starts_with("naive, exposed")) waits.push_back(part.Number("width"));
  }
  ASSERT_THAT(waits, SizeIs(2));
  EXPECT_NEAR(waits[0] / waits[1], 2, 0.02);
}

TEST(CostFigureTest, ShortCostsHaveAsManyDecimalsAsTheLongest) {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("core", "gloo", 60, 5, &records);
  AddVariant("naive", "gloo", 60, 150, &records);
  const std::vector<XmlElement> figure = FigureOf("report_decimals", records, "figure-cost");
  EXPECT_THAT(TextsOf(WithClass(figure, "value")),
              ElementsAre(::testing::ContainsRegex("^[456] ms \\[[0-9], [0-9]\\]$"),
                          ::testing::ContainsRegex("^1[45][0-9] ms \\[1[0-9]+, 1[0-9]+\\]$")));
}

TEST(CostFigureTest, TimeThatIsSavedLiesLeftOfZero) {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("core", "gloo", 60, 10, &records);
  AddVariant("zero1", "gloo", 60, 10, &records);
  for (Record& record : records) {  // 30 ms less for the optimizer
    if (record.variant.strategy != "zero1") continue;
    for (int64_t& ns : record.samples["step_ns"]) ns -= 30 * kMs;
  }
  const std::vector<XmlElement> figure = FigureOf("report_saved", records, "figure-cost");
  const double zero = WithClass(figure, "zero").at(0).Number("x1");
  const std::vector<XmlElement> rest = WithClass(figure, "rest");
  const auto saved = std::ranges::find_if(
      rest, [](const XmlElement& part) { return part.tip.starts_with("zero1, rest: −"); });
  ASSERT_NE(saved, rest.end());
  EXPECT_NEAR(saved->Number("x") + saved->Number("width"), zero, 0.02);
}

TEST(CostFigureTest, AStepWhosePartsAreUnknownHasItsTotalAlone) {
  std::vector<Record> records = EveryExperiment();
  for (const int64_t rank : {0, 1}) {
    Record record = records[static_cast<size_t>(2 + rank)];
    record.variant.framework = "pytorch";
    record.samples.erase("backward_ns");
    record.samples.erase("sync_exposed_ns");
    records.push_back(record);
  }
  const std::vector<XmlElement> figure = FigureOf("report_unknown", records, "figure-cost");
  const auto of_peer = [](const XmlElement& element) { return element.tip.starts_with("pytorch_naive"); };
  EXPECT_EQ(std::ranges::count_if(WithClass(figure, "part"), of_peer), 0);
  EXPECT_EQ(std::ranges::count_if(WithClass(figure, "mark"), of_peer), 1);
}

TEST(DifferencesFigureTest, SortsIntervalsAroundZeroAndAnswersInItsTitle) {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("core", "gloo", 60, 40, &records);
  AddVariant("naive", "gloo", 60, 60, &records);
  AddVariant("zero1", "gloo", 60, 20, &records);
  const std::vector<XmlElement> figure = FigureOf("report_forest", records, "figure-differences");
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre("Figure 1. Faster than core: zero1"));
  EXPECT_THAT(TextsOf(WithClass(figure, "name")), ElementsAre("zero1", "naive"));
  const std::vector<XmlElement> marks = WithClass(figure, "mark"), ends = WithClass(figure, "interval");
  ASSERT_THAT(marks, SizeIs(2));
  EXPECT_TRUE(marks[0].HasClass("faster"));
  EXPECT_TRUE(marks[1].HasClass("slower"));
  // 20 of 110 ms to either side of 0.
  const double zero = WithClass(figure, "zero").at(0).Number("x1");
  EXPECT_LT(ends.at(0).Number("x2"), zero);
  EXPECT_GT(ends.at(3).Number("x1"), zero);
  EXPECT_THAT(
      TextsOf(WithClass(figure, "value")),
      ElementsAre(::testing::ContainsRegex("^−1[78].*% \\[−1.*, −1"), ::testing::ContainsRegex("^\\+1[89]")));
  EXPECT_THAT(Headings(figure, "span"), ElementsAre("faster", "slower"));
}

TEST(DifferencesFigureTest, FewRowsInManyPlacesAreOnePanelOfPlaces) {
  std::vector<Record> records;
  for (const int64_t batch : {1, 2, 4}) {
    const size_t first = records.size();
    AddVariant("core", "gloo", 60, 40, &records);
    AddVariant("naive", "gloo", 60, 20 * batch, &records);
    for (size_t i = first; i < records.size(); ++i) records[i].config.Set("batch_size", batch);
  }
  const std::vector<XmlElement> figure = FigureOf("report_places", records, "figure-differences");
  EXPECT_THAT(TextsOf(WithClass(figure, "chart-title")), ElementsAre(StartsWith("naive: ")));
  EXPECT_THAT(TextsOf(WithClass(figure, "name")), ElementsAre("batch 1", "batch 2", "batch 4"));
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")),
              ElementsAre("Figure 1. Faster than core: naive (b1)"));
}

TEST(DifferencesFigureTest, PlacesAndVerdictsNameTheirModel) {
  std::vector<Record> records;
  for (const char* const model : {"tiny", "small"}) {
    const size_t first = records.size();
    AddVariant("core", "gloo", 60, 40, &records);
    AddVariant("naive", "gloo", 60, 60, &records);
    for (size_t i = first; i < records.size(); ++i) records[i].config.Set("model", std::string(model));
  }
  const std::vector<XmlElement> figure = FigureOf("report_models", records, "figure-differences");
  EXPECT_THAT(TextsOf(WithClass(figure, "name")), ::testing::UnorderedElementsAre("tiny", "small"));
  const std::vector<XmlElement> page = ParseXml(ReportOn(DirectoryWith("report_models", records)).page);
  EXPECT_THAT(WithClass(page, "findings").at(0).text,
              ::testing::AllOf(HasSubstr("tiny"), HasSubstr("small")));
}

TEST(DifferencesFigureTest, WhatDecidesNothingIsNotDrawn) {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records, 3);
  AddVariant("naive", "gloo", 60, 60, &records, 3);
  AddVariant("core", "gloo", 80, 20, &records, 3);
  const std::vector<XmlElement> elements = ParseXml(ReportOn(DirectoryWith("report_open", records)).page);
  EXPECT_THAT(Headings(elements, "figure"), IsEmpty());
  EXPECT_THAT(WithClass(elements, "findings").at(0).text, HasSubstr("No verdict. n<10"));
}

TEST(TokensFigureTest, ShowsTheShareOfAStepOverItsTokens) {
  std::vector<Record> records;
  for (const int64_t batch : {1, 4}) {
    const size_t first = records.size();
    AddVariant("none", "none", 60 * batch, 0, &records);
    AddVariant("core", "gloo", 60 * batch, 30, &records);
    for (size_t i = first; i < records.size(); ++i) {
      records[i].config.Set("batch_size", batch);
      records[i].facts.Set("tokens_per_step", 32 * batch);
    }
  }
  const std::vector<XmlElement> figure = FigureOf("report_tokens", records, "figure-tokens");
  EXPECT_THAT(WithClass(figure, "line"), SizeIs(2));  // the key has one
  const std::vector<std::string> tips = TipsOf(WithClass(figure, "marker"));
  // 30 of 100 ms, and of 280.
  ASSERT_THAT(tips, SizeIs(2));
  EXPECT_THAT(tips[0], ::testing::ContainsRegex("^core, batch 1: (29|30)\\."));
  EXPECT_THAT(tips[1], ::testing::ContainsRegex("^core, batch 4: 10\\."));
  EXPECT_THAT(
      TextsOf(WithClass(figure, "figure-title")),
      ElementsAre(::testing::ContainsRegex("core costs .* % at 32 tokens and .* % at 128 tokens over gloo")));
}

TEST(BandwidthFigureTest, IsLogLogWithIntervals) {
  std::vector<Record> records;
  for (const int64_t mib : {1, 10, 100}) {
    AddRanks(
        [&](int64_t rank) {
          std::vector<int64_t> times;
          for (int i = 0; i < 20; ++i) times.push_back(5 * kMs * mib + i % 5 * kMs);
          return AllReduceRecord(mib << 20, rank, times);
        },
        &records);
  }
  const std::vector<XmlElement> figure = FigureOf("report_bandwidth", records, "figure-bandwidth");
  EXPECT_THAT(WithClass(figure, "band"), SizeIs(1));
  std::vector<double> x;
  for (const XmlElement& marker : WithClass(figure, "marker")) {
    if (marker.tip.empty()) continue;
    x.push_back(marker.Number("cx"));
    EXPECT_THAT(marker.tip, HasSubstr("MiB: "));
  }
  ASSERT_THAT(x, SizeIs(3));
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.02);
  EXPECT_THAT(TextsOf(WithClass(figure, "tick")), ::testing::IsSupersetOf({"1MiB", "10MiB", "100MiB"}));
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre(HasSubstr("Bus bandwidth at ")));
}

// The point lies in its band, though two iterations were disturbed.
TEST(BandwidthFigureTest, ADisturbedIterationMovesNoPoint) {
  std::vector<Record> records;
  for (const int64_t mib : {1, 10}) {
    AddRanks(
        [&](int64_t rank) {
          std::vector<int64_t> times = Repeat(5 * kMs * mib, 24);
          times[5] = times[6] = 500 * kMs * mib;
          return AllReduceRecord(mib << 20, rank, times);
        },
        &records);
  }
  const std::vector<XmlElement> figure = FigureOf("report_disturbed", records, "figure-bandwidth");
  for (const std::string& tip : TipsOf(WithClass(figure, "marker")))
    EXPECT_THAT(tip, HasSubstr(": 0.210 GB/s"));
}

TEST(LinksFigureTest, MapsVerdictsByRowAndRate) {
  std::vector<Record> records;
  for (const auto& [rate, exposed_ms] : {std::pair<int64_t, int64_t>{1000000000, 20}, {50000000, 60}}) {
    const size_t first = records.size();
    AddVariant("core", "gloo", 60, 40, &records);
    AddVariant("topk", "gloo", 60, exposed_ms, &records);
    for (size_t i = first; i < records.size(); ++i) {
      records[i].config.Set("link_rate", rate);
      records[i].run_id += std::to_string(rate);
    }
  }
  const std::vector<XmlElement> figure = FigureOf("report_links", records, "figure-links");
  std::vector<std::string> verdicts;
  for (const XmlElement& cell : WithClass(figure, "cell")) {
    if (!cell.tip.empty()) verdicts.push_back(cell.Attribute("class"));
  }
  EXPECT_THAT(verdicts, ElementsAre("cell faster", "cell slower"));  // at 1 Gbit/s, at 50 Mbit/s
  EXPECT_THAT(TextsOf(WithClass(figure, "axis")), ::testing::IsSupersetOf({"1", "Gbit/s", "50", "Mbit/s"}));
  EXPECT_THAT(TextsOf(WithClass(figure, "value")), ElementsAre(StartsWith("−1"), StartsWith("+1")));
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")),
              ElementsAre(HasSubstr("Faster than core only at 1 Gbit/s; slower at 50 Mbit/s: topk")));
}

TEST(LearningFigureTest, ShowsLossLessThatOfTheBaselineWithTheSameSeed) {
  const std::string dir = FreshTestDir("learning");
  std::vector<Record> records;
  for (const int64_t seed : {0, 1, 2}) {
    const double base = 2.0 + 0.5 * static_cast<double>(seed);
    for (const auto& [name, factor] :
         {std::pair{"naive", 1.0}, {"topk", 1.1 + 0.001 * static_cast<double>(seed)}}) {
      AddRanks(
          [&](int64_t rank) {
            return LearningRecord(name, seed, rank, {3 * factor, base * factor}, kMs);
          },
          &records);
    }
  }
  WriteLines(dir + "/r.jsonl", records);
  const Outcome outcome = ReportOn(dir);
  const std::vector<XmlElement> figure = In(ParseXml(outcome.page), "figure-convergence");
  EXPECT_THAT(WithClass(figure, "chart"), SizeIs(2 + 1));  // and one in the key
  std::vector<std::string> tips = TipsOf(WithClass(figure, "marker"));
  ASSERT_THAT(tips, SizeIs(2));
  EXPECT_THAT(tips[1], HasSubstr("topk, "));
  EXPECT_THAT(tips[1], HasSubstr(" steps: +10.1 %"));
  EXPECT_THAT(TextsOf(WithClass(figure, "name")), ElementsAre("topk"));
  EXPECT_THAT(TextsOf(WithClass(figure, "value")), ElementsAre(StartsWith("+10.1 % [")));
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre(HasSubstr("worse")));
}

TEST(FigureTest, IsAPictureOfItsOwnToo) {
  const std::string dir = DirectoryWith("report_picture", EveryExperiment());
  const std::string out_flag = "--out=" + dir + "/cost.svg";
  std::ostringstream out, err;
  const char* const argv[] = {"report", dir.c_str(), "--figure=cost", out_flag.c_str()};
  ASSERT_EQ(RunReport(4, argv, out, err), 0) << err.str();
  const std::vector<XmlElement> elements = ParseXml(ReadTestFile(dir + "/cost.svg"));
  EXPECT_EQ(elements[0].name, "svg");
  EXPECT_EQ(elements[0].Attribute("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_THAT(TextsOf(WithClass(elements, "name")), ElementsAre("core", "naive", "core", "naive"));
  // A line of its title is no wider than a chart.
  const std::vector<XmlElement> title = WithClass(elements, "title");
  ASSERT_THAT(title, SizeIs(::testing::Gt(1u)));
  for (const XmlElement& line : title) EXPECT_LE(TextWidth(line.text, 14), kChartWidth);
  const char* const wrong[] = {"report", dir.c_str(), "--figure=grid", out_flag.c_str()};
  EXPECT_EQ(RunReport(4, wrong, out, err), 2);
  EXPECT_THAT(err.str(), StartsWith("report: --figure=grid: expected "));
}

}  // namespace
}  // namespace gradsync::tools
