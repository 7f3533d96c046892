#include "tools/reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "tools/charts/test_xml.h"
#include "tools/records/test_records.h"
#include "tools/render/text.h"
#include "tools/reports/cli.h"
#include "tools/reports/figures.h"
#include "tools/reports/html.h"
#include "tools/reports/rows.h"
#include "tools/reports/style.h"
#include "tools/tables/summarize.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr int64_t kMs = 1000000;
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

// Three strategies at two sequence lengths, 12 steps each, and two sizes of all-reduce.
std::vector<Record> EveryExperiment() {
  std::vector<Record> records;
  for (const int64_t seq_len : {128, 256}) {
    for (const auto& [strategy, step_ms] :
         {std::pair{"naive", 40}, std::pair{"flat", 30}, std::pair{"core", 20}}) {
      AddRanks(
          [&, strategy = strategy, step_ms = step_ms](int64_t rank) {
            std::vector<int64_t> steps;
            for (int64_t i = 0; i < 12; ++i) steps.push_back((step_ms + i % 3) * kMs * seq_len / 128);
            Record record = DdpRecord(strategy, rank, steps);
            record.config.Set("seq_len", seq_len);
            return record;
          },
          &records);
    }
  }
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

TEST(ReportTest, HasEverySectionInOrder) {
  const Outcome outcome = ReportOn(DirectoryWith("report_all", EveryExperiment()));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  const std::vector<XmlElement> elements = ParseXml(outcome.page);
  EXPECT_THAT(Headings(elements, "h2"), ElementsAre("Figures", "Tables", "Machine and provenance",
                                                    "Commands to reproduce it", "Validity flags"));
  std::vector<std::string> figures;
  for (const XmlElement& element : elements) {
    if (element.name == "figure") figures.push_back(element.Attribute("id"));
  }
  EXPECT_THAT(figures, ElementsAre("figure-step-time", "figure-bandwidth", "figure-grid"));
  EXPECT_THAT(Headings(elements, "dd"), ::testing::IsSupersetOf({"bench1", "8 × Some CPU", "16 GiB"}));
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

TEST(ReportTest, BarsShowTheTablesNumbers) {
  const std::string dir = DirectoryWith("report_bars", EveryExperiment());
  const Summary summary = Summarize({.inputs = {dir}, .baseline_row = "", .resamples = {}});
  const auto ddp = std::find_if(summary.report.tables.begin(), summary.report.tables.end(),
                                [](const Table& table) { return table.name() == "ddp"; });
  ASSERT_NE(ddp, summary.report.tables.end());
  const TableReader table(*ddp);
  const StrategyStyles styles(summary.report.tables);
  const std::vector<XmlElement> figure = In(ParseXml(ReportOn(dir).page), "figure-step-time");
  const std::vector<XmlElement> parts = WithClass(figure, "part"), totals = WithClass(figure, "total"),
                                intervals = WithClass(figure, "interval");
  ASSERT_EQ(table.num_rows(), 6u);
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const auto has_tip = [](const std::string& tip) {
      return [tip](const XmlElement& element) { return element.tip == tip; };
    };
    const std::string strategy = table.Text(row, "strategy");
    const auto ms = [&](const char* column) { return Readable(1e3 * table.Number(row, column), 4) + " ms"; };
    EXPECT_TRUE(std::any_of(totals.begin(), totals.end(), has_tip(strategy + ": " + ms("time_per_step"))));
    for (const auto& [phase, column] : {std::pair{"forward and backward", "forward_backward (s)"},
                                        std::pair{"exposed synchronisation", "exposed (s)"},
                                        std::pair{"optimizer and the rest", "optimizer (s)"}}) {
      const auto part =
          std::find_if(parts.begin(), parts.end(), has_tip(strategy + ", " + phase + ": " + ms(column)));
      ASSERT_NE(part, parts.end()) << strategy << " " << phase;
      EXPECT_TRUE(part->HasClass(styles.Of(strategy).classes));
    }
    const double low = table.Number(row, "ci95_low (%)");
    if (std::isnan(low)) continue;
    const std::string tip = strategy + ": " + Readable(table.Number(row, "delta (%)"), 3) +
                            " % against naive, 95 % interval " + Readable(low, 3) + " to " +
                            Readable(table.Number(row, "ci95_high (%)"), 3) + " %";
    EXPECT_TRUE(std::any_of(intervals.begin(), intervals.end(), has_tip(tip))) << tip;
  }
}

// Of 100 ms core computes 60, 20 more than `none`, and waits for 30.
TEST(ReportTest, BarsAddUpToTheStep) {
  std::vector<Record> records;
  for (const auto& [strategy, computed_ms, step_ms] :
       {std::tuple{"none", 40, 50}, std::tuple{"naive", 40, 90}, std::tuple{"core", 60, 100}}) {
    AddRanks(
        [&, strategy = strategy, computed_ms = computed_ms, step_ms = step_ms](int64_t rank) {
          Record record = DdpRecord(strategy, rank, Repeat(step_ms * kMs, 12));
          record.samples["forward_ns"] = Repeat(0, 12);
          record.samples["backward_ns"] = Repeat(computed_ms * kMs, 12);
          record.samples["sync_exposed_ns"] = Repeat((step_ms - computed_ms - 10) * kMs, 12);
          return record;
        },
        &records);
  }
  const std::vector<XmlElement> figure =
      In(ParseXml(ReportOn(DirectoryWith("report_sums", records)).page), "figure-step-time");
  std::vector<std::string> tips;
  for (const XmlElement& part : WithClass(figure, "part")) {
    if (!part.tip.empty()) tips.push_back(part.tip);
  }
  EXPECT_THAT(tips,
              ElementsAre("none, forward and backward: 40.00 ms", "none, optimizer and the rest: 10.00 ms",
                          "naive, forward and backward: 40.00 ms", "naive, exposed synchronisation: 40.00 ms",
                          "naive, optimizer and the rest: 10.000 ms", "core, forward and backward: 40.00 ms",
                          "core, tax: 20.00 ms", "core, exposed synchronisation: 30.00 ms",
                          "core, optimizer and the rest: 10.000 ms"));
}

TEST(ReportTest, BarsShowWhatIsKnownOfAStep) {
  std::vector<Record> records = EveryExperiment();
  const auto add = [&](const char* strategy, const std::set<std::string>& unknown, int64_t seq_len) {
    AddRanks(
        [&](int64_t rank) {
          Record record = DdpRecord(strategy, rank, Repeat(50 * kMs, 12));
          record.config.Set("seq_len", seq_len);
          for (const std::string& phase : unknown) record.samples.erase(phase);
          return record;
        },
        &records);
  };
  add("pytorch_ddp", {"backward_ns", "sync_exposed_ns"}, 128);
  add("flat", {}, 512);
  add("mine", {"forward_ns", "backward_ns", "optimizer_ns"}, 128);
  const std::vector<XmlElement> figure =
      In(ParseXml(ReportOn(DirectoryWith("report_parts", records)).page), "figure-step-time");
  std::vector<std::string> tips;
  for (const XmlElement& part : WithClass(figure, "part")) tips.push_back(part.tip);
  EXPECT_THAT(tips, ::testing::Contains("pytorch_ddp, backward with synchronisation inside: 35.00 ms"));
  EXPECT_THAT(tips, Not(::testing::Contains(HasSubstr("pytorch_ddp, exposed"))));
  EXPECT_THAT(tips, ::testing::Contains("mine, computation, not told apart: 35.00 ms"));
  EXPECT_THAT(tips, ::testing::Contains("mine, exposed synchronisation: 15.00 ms"));
  // `flat` alone at a length is compared with nothing.
  std::vector<std::string> titles;
  for (const XmlElement& title : WithClass(figure, "chart-title")) titles.push_back(title.text);
  EXPECT_THAT(titles, ElementsAre("small, batch 2, sequence 128", "small, batch 2, sequence 256"));
}

TEST(ReportTest, LinesAreNamedByWhatTellsThemApart) {
  std::vector<Record> records;
  for (const char* const run : {"20261121T101500-4f2a", "20261121T101600-77ab"}) {
    for (const char* const backend : {"gloo", "local"}) {
      AddRanks(
          [&](int64_t rank) {
            Record record = AllReduceRecord(1 << 20, rank, Repeat(5 * kMs, 200));
            record.run_id = std::string(backend) == "gloo" ? run : "20261121T101700-0001";
            record.config.Set("backend", backend);
            return record;
          },
          &records);
    }
  }
  const std::vector<XmlElement> figure =
      In(ParseXml(ReportOn(DirectoryWith("report_names", records)).page), "figure-bandwidth");
  std::vector<std::string> names;
  for (const XmlElement& name : WithClass(figure, "series-name")) names.push_back(name.text);
  EXPECT_THAT(names, UnorderedElementsAre("gloo, run 4f2a", "gloo, run 77ab", "local"));
}

TEST(ReportTest, EveryStrategyHasItsColourInFiguresAndTables) {
  std::vector<Record> records = EveryExperiment();
  for (const char* strategy : {"pytorch_naive", "mine"}) {
    AddRanks([&](int64_t rank) { return DdpRecord(strategy, rank, Repeat(50 * kMs, 12)); }, &records);
  }
  const std::vector<XmlElement> elements = ParseXml(ReportOn(DirectoryWith("report_colours", records)).page);
  const std::vector<XmlElement> parts = WithClass(In(elements, "figure-step-time"), "sync");
  const std::vector<XmlElement> dots = WithClass(elements, "dot");
  for (const char* style : {"c-1", "c-2", "c-3", "c-4"}) {
    const auto has_style = [style](const XmlElement& element) { return element.HasClass(style); };
    EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), has_style)) << style;
    EXPECT_TRUE(std::any_of(dots.begin(), dots.end(), has_style)) << style;
    EXPECT_THAT(kReportStyleSheet, HasSubstr("." + std::string(style) + " {"));
  }
  const std::vector<XmlElement> peers = WithClass(parts, "peer");
  ASSERT_THAT(peers, SizeIs(1));
  // Of one strategy in two frameworks.
  const auto naive = std::ranges::find_if(
      parts, [](const XmlElement& part) { return part.tip.starts_with("naive, exposed"); });
  ASSERT_NE(naive, parts.end());
  EXPECT_EQ(peers[0].Attribute("class"), "part c-1 peer sync");
  EXPECT_EQ(naive->Attribute("class"), "part c-1 sync");
}

TEST(ReportTest, FlagsStandInTablesCaptionsAndLegend) {
  const Outcome outcome = ReportOn(DirectoryWith("report_flags", EveryExperiment()));
  const std::vector<XmlElement> elements = ParseXml(outcome.page);
  std::vector<XmlElement> in_figure = WithClass(In(elements, "figure-bandwidth"), "flag");
  std::vector<std::string> flags;
  for (const XmlElement& flag : in_figure) flags.push_back(flag.text);
  EXPECT_THAT(flags, UnorderedElementsAre("one-launch", "n<10", "n<20", "n<100"));
  EXPECT_EQ(in_figure[1].Attribute("href"), "#flag-n-10");  // in the order of rows
  const std::vector<XmlElement> in_table = WithClass(In(elements, "table-1"), "flag");
  EXPECT_THAT(in_table, SizeIs(4));  // of both rows, said once
  EXPECT_THAT(in_table[1].Attribute("title"), HasSubstr("fewer than 10 steps"));
  const auto explains = [](const XmlElement& element) { return element.Attribute("id") == "flag-n-100"; };
  EXPECT_TRUE(std::any_of(elements.begin(), elements.end(), explains));
}

TEST(ReportTest, TablesHoldWhatOtherFormatsHold) {
  const Outcome outcome = ReportOn(DirectoryWith("report_tables", EveryExperiment()));
  std::vector<std::string> cells;
  for (const XmlElement& element : In(ParseXml(outcome.page), "table-1")) {
    if (element.name == "th" || element.name == "td") cells.push_back(element.text);
  }
  // time_max of 1 MiB in 5, 6, 7 ms, and the bandwidth of that.
  EXPECT_THAT(cells, ::testing::Contains("0.006000"));
  EXPECT_THAT(cells, ::testing::Contains("0.1748"));
}

TEST(ReportTest, EscapesEverythingThatRecordsSay) {
  std::vector<Record> records;
  AddRanks(
      [&](int64_t rank) {
        Record record = DdpRecord(kHostile, rank, Repeat(40 * kMs, 12));
        record.config.Set("model", kHostile);
        record.config.Set("backend", kHostile);
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
  EXPECT_THAT(Headings(elements, "figcaption"), SizeIs(1));
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
  for (const char* figure : {"figure-timeline-1", "figure-timeline-2"}) {
    EXPECT_THAT(WithClass(In(elements, figure), "wide"), SizeIs(1)) << figure;
  }
  EXPECT_THAT(outcome.page, HasSubstr("./bazelw run //bench:ddp -- <span class=\"argument\">--trace</span>"));
}

TEST(ReportTest, NothingToReportIsOneLineAndStatus2) {
  const std::string dir = FreshTestDir("report_nothing");
  const Outcome outcome = ReportOn(dir);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err,
            "report: " + dir + ": nothing to report, expected records (*.jsonl) or traces (*.trace.json)\n");
  EXPECT_EQ(outcome.page, "");
  EXPECT_EQ(ReportOn(dir + "/nowhere").status, 2);
}

TEST(ReportTest, CountsLinesThatAreNoRecords) {
  const std::string dir = DirectoryWith("report_broken", EveryExperiment());
  std::ofstream(dir + "/b.jsonl") << "{\"broken\n";
  const Outcome outcome = ReportOn(dir);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("b.jsonl:1"));
  EXPECT_THAT(outcome.page, HasSubstr("could not be read: 1 lines or files"));
}

// As tools/tables/compare.cc makes it, of one phase.
Table SweepTable() {
  Table table("compare", "Strategies over bucket sizes",
              {{.name = "model", .kind = Kind::kText},
               {.name = "buffer_elements (Mi)"},
               {.name = "phase", .kind = Kind::kText},
               {.name = "strategy", .kind = Kind::kText},
               {.name = "mean (ms)"},
               {.name = "delta (%)"},
               {.name = "ci95_low (%)"},
               {.name = "ci95_high (%)"},
               {.name = "baseline", .kind = Kind::kText},
               {.name = "flags", .kind = Kind::kText}});
  const double none = std::nan("");
  for (const double size : {3.0, 27.0}) {
    for (const char* phase : {"forward", "backward"}) {
      table.AddRow({"resnet50", size, phase, "core", 100.0, 0.0, none, none, "core", Flags{}});
      table.AddRow({"resnet50", size, phase, "bucketed_async", 100 + size, size, size - 2, size + 2, "core",
                    Flags{{Flag::kTooFewForP99}}});
    }
  }
  return table;
}

TEST(SweepFigureTest, HasAPanelForEachPhaseAndALineForEachStrategyButTheBaseline) {
  const Table table = SweepTable();
  const std::optional<Figure> figure = SweepFigure(table, StrategyStyles({table}));
  ASSERT_TRUE(figure);
  ASSERT_THAT(figure->panels, SizeIs(2));
  const std::vector<XmlElement> elements = ParseXml(figure->panels[1]);
  EXPECT_EQ(WithClass(elements, "chart-title")[0].text, "resnet50, backward");
  EXPECT_THAT(WithClass(elements, "line"), SizeIs(1));
  EXPECT_THAT(WithClass(elements, "band"), SizeIs(1));
  EXPECT_THAT(WithClass(elements, "reference"), SizeIs(1));
  EXPECT_THAT(
      WithClass(elements, "marker")[1].tip,
      HasSubstr("bucketed_async, 27 Mi elements: 27.0 %, 95 % interval 25.0 to 29.0 %, mean 127.0 ms"));
  EXPECT_THAT(figure->flags, ElementsAre(Flag::kTooFewForP99));
}

TEST(ReportTest, SaysFirstWhatTheTablesFind) {
  Table runs("runs", "", {{.name = "host", .kind = Kind::kText}}, Audience::kMachines);
  runs.AddRow({"bench1"});
  Table sweep = SweepTable();
  sweep.AddFinding("`core` is fastest, by 1 < 2 %.");
  std::ostringstream out;
  WriteReport({.title = "t", .tables = {sweep, runs}, .timelines = {}, .timeline_runs = {}}, out);
  const std::vector<XmlElement> findings = WithClass(ParseXml(out.str()), "findings");
  ASSERT_THAT(findings, SizeIs(2));  // and above the table
  EXPECT_THAT(findings[0].text, HasSubstr("core is fastest, by 1 < 2 %."));
}

TEST(RenderHtmlTest, GroupsRowsAndCutsTheTableWhereItIsTooLong) {
  const Table table = SweepTable();
  std::ostringstream out;
  RenderHtmlTable(table, {.id = "x", .max_rows = 5}, out);
  const std::vector<XmlElement> elements = ParseXml(out.str());
  EXPECT_THAT(WithClass(elements, "group"), SizeIs(2));
  EXPECT_THAT(Headings(elements, "tr"), SizeIs(6));
  EXPECT_THAT(out.str(), HasSubstr("The first 5 of 8 rows"));
}

TEST(RenderHtmlTest, SaysOnceWhatFlagsAllRowsCarry) {
  const Flags few = {{Flag::kTooFewForP99}}, drifts = {{Flag::kDrifts}, {Flag::kTooFewForP99}};
  for (const auto& [last, num_columns] : {std::pair{drifts, 2u}, std::pair{few, 1u}}) {
    Table table("x", "x",
                {{.name = "strategy", .kind = Kind::kText}, {.name = "flags", .kind = Kind::kText}});
    table.AddRow({"naive", few});
    table.AddRow({"none", last});
    std::ostringstream out;
    RenderHtmlTable(table, {.id = "x"}, out);
    EXPECT_THAT(out.str(), HasSubstr("All rows carry n&lt;100</p>"));
    const std::vector<XmlElement> elements = ParseXml(out.str());
    EXPECT_THAT(Headings(elements, "th"), SizeIs(2 + num_columns));  // two rows' and the columns'
    const std::vector<std::string> own = {"", "drifts"};
    EXPECT_EQ(Headings(elements, "td"), num_columns == 2 ? own : std::vector<std::string>());
  }
}

TEST(ReproducingCommandTest, RunsTheTarget) {
  EXPECT_EQ(ReproducingCommand("/tmp/out/bin/bench/ddp --steps=3 --out=x"),
            "./bazelw run //bench:ddp -- --steps=3 --out=x");
  EXPECT_EQ(ReproducingCommand("bench/peers/pytorch_ddp.py --steps=3"),
            "bench/peers/pytorch_ddp.py --steps=3");
  EXPECT_EQ(ReproducingCommand(""), "");
}

}  // namespace
}  // namespace gradsync::tools
