#include "tools/reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tools/records/test_records.h"
#include "tools/reports/test_reports.h"
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

constexpr char kHostile[] = "</style><script>alert(1)</script> & \"x\" 'y' `z` \x01";

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

// On a phone numbers then stand beside it.
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
