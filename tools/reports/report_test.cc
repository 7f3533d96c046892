#include "tools/reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "tools/records/test_records.h"
#include "tools/render/text.h"
#include "tools/reports/charts.h"
#include "tools/reports/figures.h"
#include "tools/reports/test_xml.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int64_t kMs = 1000000, kUs = 1000;
constexpr char kHostile[] = "</style><script>alert(1)</script> & \"x\" 'y' `z` \x01";

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
  std::string page;
};

Outcome ReportOn(const std::string& dir) {
  const std::string path = dir + "/report.html", out_flag = "--out=" + path;
  const char* const argv[] = {"report", dir.c_str(), out_flag.c_str()};
  std::ostringstream out, err;
  Outcome outcome;
  outcome.status = RunReport(3, argv, out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  outcome.page = ReadTestFile(path);
  return outcome;
}

void AddRanks(const std::function<Record(int64_t rank)>& make, std::vector<Record>* records) {
  for (const int64_t rank : {0, 1}) records->push_back(make(rank));
}

// A variant whose steps compute for `computed_ms` and synchronise for `exposed_ms`, in `count` rounds.
void AddVariant(const char* strategy, const char* backend, int64_t computed_ms, int64_t exposed_ms,
                std::vector<Record>* records, size_t count = 24) {
  const size_t variant = records->size();
  AddRanks(
      [&](int64_t rank) {
        std::vector<int64_t> steps, computed;
        for (size_t i = 0; i < count; ++i) {
          // Noise that every variant has of its own.
          const auto noise_us = static_cast<int64_t>((i * 37 + variant * 11) % 7) * 100;
          computed.push_back(computed_ms * kMs + noise_us * kUs);
          steps.push_back(computed.back() + (exposed_ms + 10) * kMs);
        }
        Record record = DdpRecord(strategy, rank, steps);
        if (std::string_view(strategy) != "none") record.variant.backend = backend;
        record.samples["forward_ns"] = Repeat(10 * kMs, count);
        record.samples["backward_ns"] = computed;
        for (int64_t& ns : record.samples["backward_ns"]) ns -= 10 * kMs;
        record.samples["sync_exposed_ns"] = Repeat(exposed_ms * kMs, count);
        record.samples["optimizer_ns"] = Repeat(10 * kMs, count);
        return record;
      },
      records);
}

// `none`, and two strategies over two backends, whose differences are shown; two sizes of all-reduce.
std::vector<Record> EveryExperiment() {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("naive", "gloo", 60, 60, &records);
  AddVariant("core", "gloo", 80, 20, &records);
  AddVariant("naive", "shm", 60, 30, &records);
  AddVariant("core", "shm", 65, 5, &records);
  for (const int64_t bytes : {1 << 20, 10 << 20}) {
    AddRanks(
        [&](int64_t rank) {
          return AllReduceRecord(bytes, rank, {5 * kMs, 6 * kMs, 7 * kMs});
        },
        &records);
  }
  return records;
}

std::string DirectoryWith(const std::string& name, const std::vector<Record>& records) {
  std::string dir = FreshTestDir(name);
  WriteLines(dir + "/a.jsonl", records);
  return dir;
}

std::vector<XmlElement> In(const std::vector<XmlElement>& elements, const std::string& section) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    if (element.section == section) found.push_back(element);
  }
  return found;
}

std::vector<std::string> Headings(const std::vector<XmlElement>& elements, const std::string& name) {
  std::vector<std::string> texts;
  for (const XmlElement& element : elements) {
    if (element.name == name) texts.push_back(element.text);
  }
  return texts;
}

TEST(ReportTest, BeginsWithModelMachineSentencesAndCosts) {
  const Outcome outcome = ReportOn(DirectoryWith("report_all", EveryExperiment()));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  const std::vector<XmlElement> elements = ParseXml(outcome.page);
  EXPECT_THAT(Headings(elements, "h2"),
              ElementsAre("Figures", "Tables", "Runs, and commands to repeat them", "Validity flags"));
  std::vector<std::string> figures;
  for (const XmlElement& element : elements) {
    if (element.name == "figure") figures.push_back(element.Attribute("id"));
  }
  EXPECT_THAT(figures, ElementsAre("figure-differences", "figure-cost", "figure-bandwidth"));
  const std::vector<std::string> facts = Headings(elements, "dd");
  ASSERT_THAT(facts, SizeIs(::testing::Ge(3u)));
  EXPECT_EQ(facts[0], "small");
  EXPECT_THAT(facts[1], HasSubstr("bench1, 8 x Some CPU, 16 GiB"));
  EXPECT_THAT(facts[2], HasSubstr("gradsync 0123456789ab"));
  const std::vector<XmlElement> findings = WithClass(elements, "findings");
  ASSERT_THAT(findings, Not(IsEmpty()));
  EXPECT_THAT(findings[0].text, HasSubstr("core"));
  EXPECT_LT(outcome.page.find("class=\"findings\""), outcome.page.find("figure-cost"));
}

TEST(ReportTest, LoadsNothing) {
  const Outcome outcome = ReportOn(DirectoryWith("report_alone", EveryExperiment()));
  const std::set<std::string> that_load = {"script", "link",  "img", "iframe", "object", "embed",  "video",
                                           "audio",  "image", "use", "base",   "form",   "feImage"};
  std::set<std::string> ids, targets;
  for (const XmlElement& element : ParseXml(outcome.page)) {
    EXPECT_FALSE(that_load.contains(element.name)) << element.name;
    ids.insert(element.Attribute("id"));
    for (const auto& [name, value] : element.attributes) {
      EXPECT_THAT(name, Not(::testing::StartsWith("on")));
      EXPECT_NE(name, "src");
      EXPECT_NE(name, "srcset");
      EXPECT_THAT(value, Not(HasSubstr("url(")));
      if (name.ends_with("href")) targets.insert(value);
    }
    if (element.name == "style") {
      EXPECT_THAT(element.text, Not(HasSubstr("url(")));
      EXPECT_THAT(element.text, Not(HasSubstr("@import")));
    }
  }
  EXPECT_THAT(targets, Not(IsEmpty()));
  for (const std::string& target : targets) {
    ASSERT_EQ(target[0], '#') << target;
    EXPECT_TRUE(ids.contains(target.substr(1))) << target;
  }
}

std::vector<std::string> TipsOf(const std::vector<XmlElement>& elements) {
  std::vector<std::string> tips;
  for (const XmlElement& element : elements) {
    if (!element.tip.empty()) tips.push_back(element.tip);
  }
  return tips;
}

std::vector<std::string> TextsOf(const std::vector<XmlElement>& elements) {
  std::vector<std::string> texts;
  for (const XmlElement& element : elements) texts.push_back(element.text);
  return texts;
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
  // The mark lies where the parts end.
  const std::vector<XmlElement> marks = WithClass(figure, "mark");
  ASSERT_THAT(marks, SizeIs(2));
  EXPECT_THAT(marks[0].tip, StartsWith("core@gloo: step 110 ms, cost "));
  for (const auto& [style, count] : {std::pair{"exposed", 2}, {"tax", 2}, {"own", 2}, {"rest", 2}})
    EXPECT_GE(WithClass(figure, style).size(), 1u) << style;
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre(HasSubstr("core costs ")));
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
              ElementsAre("Figure 1. Faster than core: naive (batch 1)"));
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
    if (!marker.tip.empty()) x.push_back(marker.Number("cx"));
  }
  ASSERT_THAT(x, SizeIs(3));
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.02);
  EXPECT_THAT(TextsOf(WithClass(figure, "figure-title")), ElementsAre(HasSubstr("Bus bandwidth at ")));
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

TEST(ReportTest, SentencesFiguresAndTablesLinkToEachOther) {
  const std::vector<XmlElement> elements =
      ParseXml(ReportOn(DirectoryWith("report_links_between", EveryExperiment())).page);
  std::map<std::string, std::set<std::string>> from;  // targets by section; "" is the head
  for (const XmlElement& element : WithClass(elements, "ref"))
    from[element.section].insert(element.Attribute("href"));
  EXPECT_THAT(from[""],
              ::testing::IsSupersetOf({"#figure-differences", "#figure-cost", "#table-1", "#table-2"}));
  EXPECT_THAT(from["figure-differences"], ElementsAre("#table-2"));
  EXPECT_THAT(from["table-2"], ElementsAre("#figure-cost", "#figure-differences"));
}

TEST(ReportTest, FlagsLinkToTheirLegend) {
  std::vector<Record> records;
  for (const int64_t bytes : {1 << 20, 10 << 20}) {
    AddRanks(
        [&](int64_t rank) {
          return AllReduceRecord(bytes, rank, Repeat(5 * kMs, bytes == 1 << 20 ? 3 : 10));
        },
        &records);
  }
  const std::vector<XmlElement> elements = ParseXml(ReportOn(DirectoryWith("report_flags", records)).page);
  const std::vector<XmlElement> flags = WithClass(In(elements, "table-1"), "flag");
  ASSERT_THAT(TextsOf(flags), ::testing::Contains("n<10"));
  const std::string anchor = "flag-" + std::to_string(static_cast<int>(Flag::kTooFewForInterval));
  for (const XmlElement& flag : flags) {
    if (flag.text != "n<10") continue;
    EXPECT_EQ(flag.Attribute("href"), "#" + anchor);
    EXPECT_THAT(flag.Attribute("title"), HasSubstr("fewer than 10 steps"));
  }
  std::set<std::string> ids;
  for (const XmlElement& element : elements) ids.insert(element.Attribute("id"));
  EXPECT_TRUE(ids.contains(anchor));
}

TEST(ReportTest, ShowsTheFirstSectionOfATableAndUnfoldsTheRest) {
  Table table("x", "x", {{.name = "a_name"}, {.name = "b", .section = 1}, {.name = "c", .section = 2}});
  table.AddRow({1.0, 2.0, 3.0});
  ReportContents contents;
  contents.summary.report.tables.push_back(std::move(table));
  std::ostringstream out;
  WriteReport(contents, out);
  const std::string page = out.str();
  ParseXml(page);
  EXPECT_LT(page.find(">b</th>"), page.find("<details>"));
  EXPECT_LT(page.find("<details>"), page.find(">c</th>"));
  EXPECT_THAT(page, HasSubstr(">a_<wbr/>name</th>"));
}

// So that on a phone numbers stand beside it.
TEST(ReportTest, ALongNameMayBreakBetweenItsOptions) {
  Table table("x", "x", {{.name = "variant", .kind = Kind::kText}, {.name = "other", .kind = Kind::kText}});
  table.AddRow({"core:a=1,b=2@gloo", "x:1,2"});
  ReportContents contents;
  contents.summary.report.tables.push_back(std::move(table));
  std::ostringstream out;
  WriteReport(contents, out);
  EXPECT_THAT(out.str(), HasSubstr(">core:<wbr/>a=1,<wbr/>b=2<wbr/>@gloo</th>"));
  EXPECT_THAT(out.str(), HasSubstr(">x:1,2</td>"));
}

TEST(ReportTest, SaysOnceThatTheseAreModels) {
  std::vector<Record> records = EveryExperiment();
  const size_t first = records.size();
  AddVariant("core", "gloo", 60, 20, &records);
  for (size_t i = first; i < records.size(); ++i) records[i].config.Set("model", "tiny");
  EXPECT_THAT(ReportOn(DirectoryWith("report_models", records)).page,
              HasSubstr("<dt>model</dt><dd>small; tiny</dd>"));
}

TEST(ReportTest, EscapesEverythingThatRecordsSay) {
  std::vector<Record> records;
  AddRanks(
      [&](int64_t rank) {
        Record record = DdpRecord("core", rank, Repeat(40 * kMs, 12));
        record.variant.strategy = kHostile;
        record.config.Set("model", kHostile);
        record.variant.backend = kHostile;
        record.provenance.host = record.provenance.cpu_model = record.provenance.os = kHostile;
        record.provenance.command_line = std::string("/x/bench/ddp ") + kHostile;
        return record;
      },
      &records);
  const Outcome outcome = ReportOn(DirectoryWith("report_hostile", records));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const XmlElement& element : ParseXml(outcome.page)) EXPECT_NE(element.name, "script");
  EXPECT_THAT(outcome.page, HasSubstr("./bazelw run //bench:ddp -- &lt;/style&gt;&lt;script&gt;"));
}

TEST(ReportTest, LeavesOutWhatThereIsNothingFor) {
  std::vector<Record> records;
  for (const char* const launch : {"a", "b"}) {
    AddRanks(
        [&](int64_t rank) {
          Record record = AllReduceRecord(1 << 20, rank, Repeat(5 * kMs, 200));
          record.run_id = launch;
          record.facts.Set("launch_set", "a");
          return record;
        },
        &records);
  }
  const std::vector<XmlElement> elements = ParseXml(ReportOn(DirectoryWith("report_part", records)).page);
  EXPECT_THAT(Headings(elements, "figcaption"), IsEmpty());
  EXPECT_THAT(Headings(elements, "section"), SizeIs(1));
  EXPECT_THAT(Headings(elements, "h2"), Not(::testing::Contains("Validity flags")));
}

// A step of one rank, in the form of bench/timing/trace_log.cc.
std::string TraceOf(const std::string& strategy) {
  const auto event = [&](const char* name, int begin_us, int duration_us) {
    return "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"name\":\"" + std::string(name) +
           "\",\"ts\":" + std::to_string(begin_us) + ",\"dur\":" + std::to_string(duration_us) +
           ",\"args\":{\"strategy\":\"" + strategy + "\",\"step\":0,\"batch_size\":2,\"seq_len\":8}}";
  };
  return "{\"traceEvents\": [" + event(strategy.c_str(), 0, 400) + "," + event("forward", 0, 100) + "," +
         event("backward", 100, 200) + "," + event("sync_exposed", 300, 50) + "," +
         event("optimizer", 350, 50) + "]}";
}

TEST(ReportTest, DrawsTheTracesBesideAndBelowTheRecordsAndSaysHowToMakeThem) {
  const std::string dir = DirectoryWith("report_traces", EveryExperiment());
  std::filesystem::create_directory(dir + "/traces");
  std::ofstream(dir + "/ddp.1.rank0.trace.json") << TraceOf("naive");
  std::ofstream(dir + "/traces/ddp.2.rank0.trace.json") << TraceOf("core");
  std::ofstream(dir + "/traces/ddp.3.rank0.trace.json") << "{\"no\": \"trace\"}";
  Record traced = DdpRecord("core", 0, Repeat(20 * kMs, 3));
  traced.run_id = "20261121T101900-0002";
  traced.provenance.command_line = "/x/bench/ddp --trace";
  WriteLines(dir + "/traces/ddp.2.rank0.jsonl", {traced});
  const Outcome outcome = ReportOn(dir);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("ddp.3.rank0.trace.json"));  // does not cost the others
  const std::vector<XmlElement> elements = ParseXml(outcome.page);
  for (const char* figure : {"figure-timeline-ddp.1-2-8", "figure-timeline-ddp.2-2-8"})
    EXPECT_THAT(WithClass(In(elements, figure), "wide"), SizeIs(1)) << figure;
  EXPECT_THAT(outcome.page, HasSubstr("./bazelw run //bench:ddp -- --trace"));

  // The latest run's alone.
  const auto draw = [](const std::string& from, std::ostream& err) {
    const std::string out_flag = "--out=" + from + "/timeline.svg";
    const char* const argv[] = {"report", from.c_str(), "--figure=timeline", out_flag.c_str()};
    std::ostringstream out;
    return RunReport(4, argv, out, err);
  };
  std::ostringstream err;
  ASSERT_EQ(draw(dir, err), 0) << err.str();
  const std::string picture = ReadTestFile(dir + "/timeline.svg");
  EXPECT_THAT(TextsOf(ParseXml(picture)), ::testing::Contains("core"));
  // It explains its colours itself; the page does beside it, where a phone shows them.
  EXPECT_THAT(TextsOf(ParseXml(picture)), ::testing::IsSupersetOf({"core", "optimizer"}));
  EXPECT_THAT(Headings(In(elements, "figure-timeline-ddp.2-2-8"), "span"), ::testing::Contains("optimizer"));
  EXPECT_THAT(TextsOf(WithClass(In(elements, "figure-timeline-ddp.1-2-8"), "figure-title")),
              ElementsAre(HasSubstr("batch 2, sequence 8: steps without communication")));
  const std::string without = DirectoryWith("report_untraced", EveryExperiment());
  EXPECT_EQ(draw(without, err), 2);
  EXPECT_THAT(
      err.str(),
      HasSubstr(
          "report: --figure=timeline: the records hold nothing that it could show, no trace (*.trace.json)"));
}

TEST(ReportTest, NothingToReportIsOneLineAndStatus2) {
  const std::string dir = FreshTestDir("report_nothing");
  const Outcome outcome = ReportOn(dir);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err, "report: " + dir + ": no records (*.jsonl) in it, it is empty\n");
  EXPECT_EQ(outcome.page, "");
  EXPECT_EQ(ReportOn(dir + "/nowhere").status, 2);
  for (const char* const more : {"--figure=cost", "--details"}) {
    const char* const argv[] = {"report", dir.c_str(), "--out=c.png", more};
    std::ostringstream out, err;
    EXPECT_EQ(RunReport(4, argv, out, err), 2);
    EXPECT_THAT(err.str(),
                HasSubstr(more == std::string("--details") ? "no such flag"
                                                           : "c.png: expected a name that ends in .svg\n"));
  }
}

TEST(ReportTest, CountsLinesThatAreNoRecords) {
  const std::string dir = DirectoryWith("report_broken", EveryExperiment());
  std::ofstream(dir + "/b.jsonl") << "{\"broken\n";
  const Outcome outcome = ReportOn(dir);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("b.jsonl:1"));
  EXPECT_THAT(outcome.page, HasSubstr("could not be read: 1 lines or files"));
}

}  // namespace
}  // namespace gradsync::tools
