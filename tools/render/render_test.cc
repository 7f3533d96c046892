#include "tools/render/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/render/section.h"

namespace gradsync::tools {
namespace {

// One column of each sort.
Report Sample() {
  Table table("runs_of", "Title & more",
              {{.name = "who", .kind = Kind::kText},
               {.name = "time", .digits = 3, .section = 1},
               {.name = "delta", .kind = Kind::kPercent, .section = 1, .has_interval = true},
               {.name = "delta_low", .kind = Kind::kPercent, .audience = Audience::kMachines},
               {.name = "delta_high", .kind = Kind::kPercent, .audience = Audience::kMachines},
               {.name = "size", .kind = Kind::kPlain, .section = 2},
               {.name = "share", .kind = Kind::kFraction, .section = 2},
               {.name = "error", .digits = 2, .section = 2},
               {.name = "ranks", .kind = Kind::kInteger, .said_once = true}});
  table.AddRow({"a|b_\"c\",", 0.0123456, -2.5, -3.14, -1.25, 0.25, 0.5, 1.26e-7, 2.0});
  table.AddRow({"é", 1.5, kNaN, kNaN, kNaN, 1024.0, kNaN, 0.0, 2.0});
  table.MarkLast("time");
  table.SetSectionTitle(2, "second");
  table.AddNote("a note with 5 %");
  Report report;
  report.header = {"# head"};
  report.tables.push_back(std::move(table));
  Table machines("machines", "", {{.name = "x"}}, Audience::kMachines);
  machines.AddRow({1.0});
  report.tables.push_back(std::move(machines));
  return report;
}

template <class Render>
std::string Text(const Render& render, const Report& report) {
  std::ostringstream out;
  render(report, out);
  return out.str();
}

void Markdown(const Report& report, std::ostream& out) { RenderMarkdown(report, out); }
void Latex(const Report& report, std::ostream& out) { RenderLatex(report, out); }

TEST(RenderTest, WithoutDetailsPeopleSeeFirstSectionsAlone) {
  Report report = Sample();
  Table detail("detail", "A detail", {{.name = "x"}});
  detail.AddRow({1.0});
  detail.SetDetail();
  report.tables.push_back(std::move(detail));
  std::ostringstream markdown, latex;
  RenderMarkdown(report, markdown, false);
  RenderLatex(report, latex, false);
  for (const std::string& text : {markdown.str(), latex.str()}) {
    EXPECT_NE(text.find("0.0123"), std::string::npos);
    EXPECT_EQ(text.find("second"), std::string::npos);
    EXPECT_EQ(text.find("A detail"), std::string::npos);
  }
  EXPECT_NE(Text(Markdown, report).find("A detail"), std::string::npos);
  EXPECT_NE(Text(RenderJson, report).find("\"detail\""), std::string::npos);
}

TEST(RenderTest, Markdown) {
  EXPECT_EQ(Text(Markdown, Sample()), R"(# head

## Title & more

All rows: ranks 2.

| who       |    time |   delta [95 % CI] |
|:----------|--------:|------------------:|
| a\|b_"c", |  0.0123 | -2.5 [-3.1, -1.2] |
| é         | 1.5000* |                   |

second:

| who       | size | share |   error |
|:----------|-----:|------:|--------:|
| a\|b_"c", | 0.25 | 0.500 | 1.3e-07 |
| é         | 1024 |       |       0 |

- a note with 5 %
)");
}

TEST(RenderTest, ColumnsOfNoSectionAreSaidOnceOrNotAtAll) {
  Table table("t", "T",
              {{.name = "x", .kind = Kind::kInteger, .section = 1},
               {.name = "ranks", .kind = Kind::kInteger, .section = kNowhere, .said_once = true},
               {.name = "batch", .kind = Kind::kInteger, .section = kNowhere, .said_once = true}});
  table.AddRow({1.0, 2.0, 3.0});
  table.AddRow({1.0, 2.0, 4.0});
  Report report;
  report.tables.push_back(std::move(table));
  EXPECT_EQ(Text(Markdown, report), "\n## T\n\nAll rows: ranks 2.\n\n|   x |\n|----:|\n|   1 |\n|   1 |\n");
  EXPECT_THAT(Text(RenderCsv, report), ::testing::HasSubstr("1,2,4"));
}

// People read another unit than machines, and signs once.
TEST(RenderTest, ColumnsMayBeShownInAnotherUnit) {
  Report report;
  Table table("t", "T",
              {{.name = "cost (s)",
                .kind = Kind::kPercent,
                .header = "cost (ms)",
                .times = 1e3,
                .has_interval = true},
               {.name = "low", .audience = Audience::kMachines},
               {.name = "high", .audience = Audience::kMachines},
               {.name = "step (s)", .header = "step (ms)", .times = 1e3}});
  table.AddRow({0.0235, 0.0213, 0.0261, 0.0678543});
  report.tables.push_back(std::move(table));
  EXPECT_THAT(Text(Markdown, report), ::testing::HasSubstr(R"(
|          cost (ms) | step (ms) |
|-------------------:|----------:|
| +23.5 [21.3, 26.1] |     67.85 |
)"));
  EXPECT_THAT(Text(RenderCsv, report),
              ::testing::HasSubstr("cost (s),low,high,step (s)\r\n0.0235,0.0213,0.0261,0.0678543"));
}

TEST(RenderTest, Latex) {
  EXPECT_EQ(Text(Latex, Sample()), R"(% # head

\begin{table}
\centering
\caption{Title \& more (ranks 2)}
\small
\begin{tabular}{lrr}
\toprule
who & time & delta [95 \% CI] \\
\midrule
a|b\_"c", & 0.0123 & -2.5 [-3.1, -1.2] \\
é & 1.5000* &  \\
\bottomrule
\end{tabular}

\medskip
second

\smallskip
\begin{tabular}{lrrr}
\toprule
who & size & share & error \\
\midrule
a|b\_"c", & 0.25 & 0.500 & 1.3e-07 \\
é & 1024 &  & 0 \\
\bottomrule
\end{tabular}

\smallskip
a note with 5 \%
\end{table}
)");
}

TEST(RenderTest, LatexEscapesEveryCharacterThatMeansSomething) {
  Report report;
  Table table("t", R"(\ { } ~ ^ # $ < >)", {{.name = "x"}});
  report.tables.push_back(std::move(table));
  EXPECT_NE(Text(Latex, report)
                .find(R"(\caption{\textbackslash{} \{ \} \textasciitilde{} )"
                      R"(\textasciicircum{} \# \$ \textless{} \textgreater{}})"),
            std::string::npos);
}

TEST(RenderTest, Csv) {
  EXPECT_EQ(Text(RenderCsv, Sample()),
            "# runs_of\r\n"
            "who,time,delta,delta_low,delta_high,size,share,error,ranks\r\n"
            "\"a|b_\"\"c\"\",\",0.0123456,-2.5,-3.14,-1.25,0.25,0.5,1.26e-07,2\r\n"
            "é,1.5,,,,1024,,0,2\r\n"
            "\r\n"
            "# machines\r\n"
            "x\r\n"
            "1\r\n");
}

TEST(RenderTest, Json) {
  const std::string text = Text(RenderJson, Sample());
  const nlohmann::json json = nlohmann::json::parse(text);
  const nlohmann::json& table = json.at("tables").at(0);
  EXPECT_EQ(table.at("name"), "runs_of");
  EXPECT_EQ(table.at("columns"), nlohmann::json({"who", "time", "delta", "delta_low", "delta_high", "size",
                                                 "share", "error", "ranks"}));
  EXPECT_EQ(table.at("rows").at(0),
            nlohmann::json({"a|b_\"c\",", 0.0123456, -2.5, -3.14, -1.25, 0.25, 0.5, 1.26e-7, 2}));
  EXPECT_TRUE(table.at("rows").at(0).at(8).is_number_integer());
  EXPECT_TRUE(table.at("rows").at(1).at(2).is_null());
  EXPECT_EQ(json.at("tables").at(1).at("name"), "machines");
}

TEST(RenderTest, JsonHasWhatPeopleReadToo) {
  Report report = Sample();
  report.tables[0].AddFinding("A finding.");
  report.tables[0].SetDetail();
  Table warnings("bold", "",
                 {{.name = "warnings", .kind = Kind::kText}, {.name = "who", .kind = Kind::kText}},
                 Audience::kPeople);
  warnings.AddRow({Warnings{{Warning::kOutliers, "3"}}, "a"});
  warnings.MarkLast("who");
  report.tables.push_back(std::move(warnings));
  report.runs = {{"ddp", "run1", "now", "2 ranks", "do \"it\"", "host", "gradsync"}};
  const nlohmann::json json = nlohmann::json::parse(Text(RenderJson, report));
  EXPECT_EQ(json.at("tables").size(), 2);
  ASSERT_EQ(json.at("shown").size(), 2);
  EXPECT_EQ(json["shown"][0], nlohmann::json::parse(R"({
      "name": "runs_of", "title": "Title & more", "constants": "ranks 2", "is_detail": true,
      "findings": ["A finding."], "notes": ["a note with 5 %"], "sections": [
        {"title": "", "columns": ["who", "time", "delta [95 % CI]"],
         "rows": [["a|b_\"c\",", "0.0123", "-2.5 [-3.1, -1.2]"], ["é", "1.5000*", ""]]},
        {"title": "second", "columns": ["who", "size", "share", "error"],
         "rows": [["a|b_\"c\",", "0.25", "0.500", "1.3e-07"], ["é", "1024", "", "0"]]}]})"));
  EXPECT_EQ(json["shown"][1]["sections"][0]["rows"][0], nlohmann::json({"outliers:3", "**a**"}));
  ASSERT_EQ(json.at("warnings").size(), 1);
  EXPECT_EQ(json["warnings"][0]["name"], "outliers");
  EXPECT_EQ(json["warnings"][0]["meaning"], ExplanationOf(Warning::kOutliers));
  EXPECT_EQ(json.at("runs"), nlohmann::json::parse(R"([{"experiment": "ddp", "run": "run1", "time": "now",
      "ranks": "2 ranks", "command": "do \"it\"", "machine": "host", "software": "gradsync"}])"));
}

TEST(RenderTest, DescribesFewRunsAndCountsMany) {
  const RunText run = {"ddp", "run1", "now", "2 ranks", "do `it`", "host", "gradsync"};
  RunText other = run, published = {.experiment = "ddp", .run = "text"};
  other.software = "new";
  EXPECT_THAT(RunLines({run, run, other, published}),
              ::testing::ElementsAre("- ddp: run run1, now, 2 ranks, `do 'it'`", "  - on host",
                                     "  - with gradsync", "- ddp: run run1, now, 2 ranks, `do 'it'`",
                                     "- ddp: run run1, now, 2 ranks, `do 'it'`", "  - with new",
                                     "- ddp: run text, , , ``"));
  EXPECT_THAT(RunLines(std::vector<RunText>(7, run)), ::testing::ElementsAre("From 7 runs."));
}

TEST(RenderTest, NothingIsValidToo) {
  EXPECT_EQ(nlohmann::json::parse(Text(RenderJson, {})),
            nlohmann::json::parse(R"({"tables":[],"shown":[],"warnings":[],"runs":[]})"));
  EXPECT_EQ(Text(RenderCsv, {}), "");
  EXPECT_EQ(Text(Markdown, {}), "");
}

TEST(RenderTest, ExplainsOnceTheWarningsThatOccur) {
  Report report;
  for (const char* const name : {"a", "b"}) {
    Table table(name, name, {{.name = "warnings", .kind = Kind::kText}});
    table.AddRow({Warnings{{Warning::kTooFewForP99}, {Warning::kOutliers, "3"}}});
    table.AddRow({Warnings{}});
    report.tables.push_back(std::move(table));
  }
  const std::string outliers =
      "`outliers`: N steps differ from the median by more than 10 scaled median absolute deviations; plain "
      "means (*) include them.";
  const std::string few = "`n<100`: fewer than 100 steps: p99 (*) is an interpolation close to the maximum.";
  EXPECT_TRUE(Text(Markdown, report).ends_with("\n## Warnings\n\n- " + outliers + "\n- " + few + "\n"));
  const std::string latex = Text(Latex, report);
  EXPECT_EQ(latex.find(outliers), latex.rfind(outliers));
  EXPECT_NE(latex.find(outliers), std::string::npos);
}

// Those of all rows once above the table, those of a number as its asterisk.
TEST(RenderTest, AWarningIsSaidWhereItTellsMost) {
  Table table("t", "T",
              {{.name = "p99", .section = 1, .marked_with = Warning::kTooFewForP99},
               {.name = "warnings", .kind = Kind::kText, .section = 1}});
  table.AddRow({1.0, Warnings{{Warning::kOversubscribed}, {Warning::kTooFewForP99}}});
  table.AddRow({2.0, Warnings{{Warning::kOversubscribed}, {Warning::kOutliers, "3"}}});
  Report report;
  report.tables.push_back(table);
  EXPECT_THAT(Text(Markdown, report), ::testing::StartsWith("\n## T\n\nAll rows: warnings oversubscribed.\n\n"
                                                            "|    p99 | warnings   |\n"
                                                            "|-------:|:-----------|\n"
                                                            "| 1.000* |            |\n"
                                                            "|  2.000 | outliers:3 |\n"));
  EXPECT_THAT(Text(RenderCsv, report), ::testing::HasSubstr("oversubscribed n<100"));
  EXPECT_EQ(WarningsIn(report.tables, false),
            (std::set<Warning>{Warning::kOversubscribed, Warning::kOutliers}));
  std::ostringstream latex;
  RenderLatex(report, latex, false);
  EXPECT_THAT(latex.str(), ::testing::AllOf(::testing::HasSubstr("outliers`: N steps"),
                                            ::testing::Not(::testing::HasSubstr("100`: fewer"))));
}

std::vector<std::string> TextsOf(Column column, const std::vector<double>& values) {
  Table table("t", "", {std::move(column)});
  for (const double value : values) table.AddRow({value});
  const std::vector<Section> sections = MakeSections(table);
  std::vector<std::string> cells;
  for (const std::vector<Shown>& row : sections.at(0).rows) cells.push_back(row.at(0).text);
  return cells;
}

using Texts = std::vector<std::string>;

TEST(SectionTest, DecimalsFollowTheSmallestNumber) {
  EXPECT_EQ(TextsOf({.name = "x"}, {2.37123, 0.5, 0}), (Texts{"2.3712", "0.5000", "0"}));
  EXPECT_EQ(TextsOf({.name = "x", .digits = 3}, {120, 99.95}), (Texts{"120.0", "100.0"}));
  EXPECT_EQ(TextsOf({.name = "x"}, {123456, 23456.4}), (Texts{"123456", "23456"}));
}

TEST(SectionTest, DecimalsOfPartsFollowTheLargest) {
  EXPECT_EQ(TextsOf({.name = "x", .kind = Kind::kPart, .digits = 3}, {0.06336, -0.0012225, 3e-6}),
            (Texts{"0.0634", "-0.0012", "0.0000"}));
}

TEST(SectionTest, NumbersThatAreFarSmallerHaveDecimalsOfTheirOwn) {
  EXPECT_EQ(TextsOf({.name = "x"}, {0.00004757, 0.686, 12}), (Texts{"0.00004757", "0.6860", "12.0000"}));
  EXPECT_EQ(TextsOf({.name = "x"}, {5.193e-7, 0.03686, 0.009478}),
            (Texts{"5.193e-07", "0.036860", "0.009478"}));
}

TEST(SectionTest, ShowsWhatIsNoNumber) {
  EXPECT_EQ(TextsOf({.name = "x"}, {kNaN, std::numeric_limits<double>::infinity()}), (Texts{"", "inf"}));
  EXPECT_EQ(TextsOf({.name = "x"}, {0, kNaN}), (Texts{"0", ""}));
}

TEST(SectionTest, PercentagesHaveASignUnlessTheyAreNothing) {
  EXPECT_EQ(TextsOf({.name = "x", .kind = Kind::kPercent}, {12.34, -0.04, 0.04, 0, -5}),
            (Texts{"+12.3", "0.0", "0.0", "0.0", "-5.0"}));
}

TEST(RenderTest, FindingsAreShownWithTheirTable) {
  Table table("t", "Title", {{.name = "x"}});
  table.AddRow({1.0});
  table.AddFinding("core is fastest by 5 %.");
  Report report;
  report.tables.push_back(std::move(table));
  EXPECT_NE(Text(Markdown, report).find("## Title\n\n**core is fastest by 5 %.**\n\n|"), std::string::npos);
  EXPECT_NE(Text(Latex, report).find("core is fastest by 5 \\%.\n"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(Text(RenderJson, report));
  EXPECT_EQ(json["tables"][0]["findings"][0], "core is fastest by 5 %.");
}

TEST(RenderTest, ManyRowsKeepTheirOrder) {
  constexpr int kRows = 10001;
  Table table("t", "Title", {{.name = "x", .kind = Kind::kInteger}});
  for (int i = 0; i < kRows; ++i) table.AddRow({static_cast<double>(i)});
  Report report;
  report.tables.push_back(std::move(table));
  const nlohmann::json rows = nlohmann::json::parse(Text(RenderJson, report))["tables"][0]["rows"];
  std::istringstream csv(Text(RenderCsv, report));
  std::istringstream markdown(Text(Markdown, report));
  std::string line;
  std::getline(csv, line);  // one table begins with its header
  EXPECT_EQ(line, "x\r");
  while (std::getline(markdown, line) && !line.starts_with("|--")) continue;
  ASSERT_EQ(rows.size(), size_t{kRows});
  for (int i = 0; i < kRows; ++i) {
    ASSERT_EQ(rows[static_cast<size_t>(i)][0], i);
    ASSERT_TRUE(std::getline(csv, line));
    ASSERT_EQ(line, std::to_string(i) + "\r");
    ASSERT_TRUE(std::getline(markdown, line));
    ASSERT_EQ(std::stoi(line.substr(1)), i);
  }
  EXPECT_FALSE(std::getline(csv, line));
  EXPECT_FALSE(std::getline(markdown, line));
}

TEST(RenderTest, WhatIsMarkedIsBoldAndWhatIsEmptyIsNotShown) {
  Table table("t", "T",
              {{.name = "strategy", .kind = Kind::kText},
               {.name = "time", .section = 1},
               {.name = "unknown", .section = 1},
               {.name = "nothing", .section = 2}});
  const double none = std::nan("");
  table.AddRow({"core", 1.0, none, none});
  table.MarkLast("strategy");
  table.AddRow({"naive", 2.0, none, none});
  Report report;
  report.tables.push_back(table);
  std::ostringstream markdown, latex;
  RenderMarkdown(report, markdown);
  EXPECT_EQ(
      markdown.str(),
      "\n## T\n\n| strategy |  time |\n|:---------|------:|\n| **core** | 1.000 |\n| naive    | 2.000 |\n");
  RenderLatex(report, latex);
  EXPECT_NE(latex.str().find("\\textbf{core} & 1.000"), std::string::npos);
}

}  // namespace
}  // namespace gradsync::tools
