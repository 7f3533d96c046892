#include "tools/reports/report.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/reports/html.h"
#include "tools/reports/rows.h"
#include "tools/reports/style.h"
#include "tools/reports/summary.h"

namespace gradsync::tools {
namespace {

constexpr char kRuns[] = "runs";
// More commands than this are counted, not listed.
constexpr size_t kMaxRuns = 100;

// "n<100" -> "flag-n-100", for links.
std::string FlagAnchor(Flag flag) {
  std::string anchor = "flag-";
  for (const char c : WordOf(flag)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    anchor += is_plain ? c : '-';
  }
  return anchor;
}

// A command, escaped, in which a line does not end inside a flag.
std::string WholeFlags(const std::string& command) {
  std::string html;
  std::istringstream words(command);
  for (std::string word; std::getline(words, word, ' ');) {
    if (!html.empty()) html += ' ';
    const bool is_flag = word.starts_with("--") && word.size() > 2;
    html += is_flag ? "<span class=\"argument\">" + EscapeXml(word) + "</span>" : EscapeXml(word);
  }
  return html;
}

class Page {
 public:
  Page(const ReportContents& contents, std::ostream& out)
      : contents_(contents), styles_(contents.tables), out_(out), flags_(FlagsIn(contents.tables)) {
    for (const Table& table : contents_.tables) {
      if (table.name() == kRuns) runs_.push_back(&table);
      const bool is_shown =
          table.name() != kRuns && table.audience() != Audience::kMachines && table.num_rows() > 0;
      if (is_shown) shown_.push_back(&table);
    }
    for (const Table& table : contents_.timeline_runs) runs_.push_back(&table);
  }

  void Write() {
    WriteHead();
    WriteFigures();
    WriteTables();
    WriteMachines();
    WriteCommands();
    WriteFlags();
    out_ << "<footer>Made by gradsync’s <code>//tools:report</code> from " << contents_.num_records
         << " records.";
    if (contents_.num_problems > 0)
      out_ << " Left out, because they could not be read: " << contents_.num_problems << " lines or files.";
    out_ << "</footer>\n</main>\n</body>\n</html>\n";
  }

 private:
  void WriteHead() {
    const std::string title = EscapeXml(contents_.title);
    out_ << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
            // Not even by mistake does the page load anything.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'\"/>\n<title>"
         << title << "</title>\n<style>" << kReportStyleSheet
         << "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"eyebrow\">gradsync report"
         << EscapeXml(Dates()) << "</p>\n<h1>" << title << "</h1>\n"
         << FindingsOf(contents_.tables)
         << "<nav aria-label=\"Contents\"><a href=\"#figures\">Figures</a> <a href=\"#tables\">Tables</a> <a "
            "href=\"#machine\">Machine</a> <a href=\"#reproduce\">Commands</a>"
         << (flags_.empty() ? "" : " <a href=\"#flags\">Validity flags</a>") << "</nav>\n</header>\n";
  }

  // " · 2026-11-21", of the first and the last run.
  std::string Dates() const {
    std::set<std::string> dates;
    for (const Table* runs : runs_) {
      for (const std::string& time : TableReader(*runs).Values("time_utc")) dates.insert(time.substr(0, 10));
    }
    if (dates.empty()) return "";
    return " · " + *dates.begin() + (dates.size() == 1 ? "" : " to " + *dates.rbegin());
  }

  std::vector<Figure> Figures() const {
    std::vector<Figure> figures;
    const auto add = [&](const char* table_name, const auto& make) {
      const Table* const table = FindTable(contents_.tables, table_name);
      std::optional<Figure> figure = table == nullptr ? std::nullopt : make(*table, styles_);
      if (figure) figures.push_back(std::move(*figure));
    };
    add("ddp", StepTimeFigure);
    add("all_reduce", BandwidthFigure);
    add("compare", SweepFigure);
    for (size_t i = 0; i < contents_.timelines.size(); ++i) {
      figures.push_back({.id = Join("timeline-", i + 1),
                         .title = contents_.timelines[i].title,
                         .caption = "One step of each strategy, the one of median length, on one scale of "
                                    "time. Tracing adds to a step, so its times are not those of the tables.",
                         .panels = {contents_.timelines[i].svg},
                         .is_wide = true});
    }
    add("grid", GridFigure);
    return figures;
  }

  void WriteFigures() {
    const std::vector<Figure> figures = Figures();
    if (!figures.empty()) out_ << "<h2 id=\"figures\">Figures</h2>\n";
    for (size_t i = 0; i < figures.size(); ++i) WriteFigure(figures[i], i + 1);
  }

  void WriteFigure(const Figure& figure, size_t number) {
    const size_t num_panels = figure.panels.size();
    const bool in_pairs = figure.in_pairs || num_panels == 2 || num_panels == 4;
    out_ << "<figure id=\"figure-" << figure.id << "\""
         << (num_panels == 1 && !figure.is_wide ? " class=\"single\"" : "") << ">\n"
         << figure.key << "<div class=\"";
    if (figure.is_wide) {
      out_ << "wide\" role=\"region\" tabindex=\"0\" aria-label=\"" << EscapeXml(figure.title) << "\">\n";
    } else {
      out_ << (in_pairs ? "panels pairs" : "panels") << "\">\n";
    }
    for (const std::string& panel : figure.panels) out_ << panel;
    out_ << "</div>\n<figcaption><strong>Figure " << number << ". " << EscapeXml(figure.title)
         << ".</strong> " << figure.caption;
    if (figure.num_panels > num_panels)
      out_ << " The first " << num_panels << " of " << figure.num_panels << " panels.";
    const std::string table = TableReference(figure.table);
    if (!table.empty()) out_ << " The numbers are in " << table << ".";
    Flags flags;
    for (const Flag flag : figure.flags) flags.push_back({flag});
    if (!flags.empty()) out_ << " Some of these rows carry flags: " << FlagChips(flags);
    out_ << "</figcaption>\n</figure>\n";
  }

  // "table 3" or "tables 3 to 5": where a figure's numbers are, in the table itself or its form for people.
  std::string TableReference(const std::string& name) const {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < shown_.size(); ++i) {
      const std::string& shown = shown_[i]->name();
      if (shown == name || shown == name + "_side_by_side" || shown == name + "_block")
        numbers.push_back(i + 1);
    }
    if (numbers.empty()) return "";
    const size_t first = numbers.front(), last = numbers.back();
    const std::string text = first == last ? Join("table ", first) : Join("tables ", first, " to ", last);
    return Join("<a href=\"#table-", first, "\">", text, "</a>");
  }

  // Flags, each with a link to its explanation.
  static std::string FlagChips(const Flags& flags) {
    std::string html;
    for (const FlagOfRow& own : flags) {
      html += Join("<a class=\"flag\" href=\"#", FlagAnchor(own.flag), "\" title=\"",
                   EscapeXml(ExplanationOf(own.flag)), "\">", EscapeXml(TextOf({own})), "</a> ");
    }
    return html;
  }

  std::string Cell(const std::string& column, const Shown& cell) const {
    if (!cell.flags.empty()) return FlagChips(cell.flags);
    if (column != "strategy" || cell.text.empty()) return EscapeXml(cell.text);
    return Join("<span class=\"dot ", styles_.Of(cell.text).classes, "\"></span>", EscapeXml(cell.text));
  }

  void WriteTables() {
    if (!shown_.empty()) {
      out_ << "<h2 id=\"tables\">Tables</h2>\n<p>Times are those of the slowest rank. Where a number should "
              "not "
              "be relied on, the row that holds it says why.</p>\n";
    }
    for (size_t i = 0; i < shown_.size(); ++i) {
      const auto cell = [this](const std::string& column, const Shown& shown) { return Cell(column, shown); };
      RenderHtmlTable(*shown_[i],
                      {.id = Join("table-", i + 1), .heading = Join("Table ", i + 1, ". "), .cell = cell},
                      out_);
    }
  }

  void WriteMachines() {
    out_ << "<h2 id=\"machine\">Machine and provenance</h2>\n";
    for (const Machine& machine : MachinesOf(runs_)) {
      out_ << "<dl>\n";
      for (const auto& [name, value] : machine.facts)
        out_ << "<dt>" << EscapeXml(name) << "</dt><dd>" << EscapeXml(value) << "</dd>\n";
      out_ << "<dt>runs</dt><dd>";
      for (size_t i = 0; i < std::min(machine.runs.size(), kMaxRuns); ++i)
        out_ << (i > 0 ? ", " : "") << EscapeXml(machine.runs[i]);
      if (machine.runs.size() > kMaxRuns) out_ << " and " << machine.runs.size() - kMaxRuns << " more";
      out_ << "</dd>\n</dl>\n";
    }
  }

  void WriteCommands() {
    out_ << "<h2 id=\"reproduce\">Commands to reproduce it</h2>\n"
            "<p>Each run’s own command line, in a checkout of the commit named above.</p>\n";
    size_t num_runs = 0;
    for (const Table* runs : runs_) {
      const TableReader reader(*runs);
      for (size_t row = 0; row < reader.num_rows(); ++row) {
        if (++num_runs > kMaxRuns) continue;
        const std::string ranks = reader.Any(row, "world_size"), placement = reader.Text(row, "placement");
        out_ << "<p class=\"meta\">" << EscapeXml(reader.Text(row, "experiment")) << ", run "
             << EscapeXml(reader.Text(row, "run")) << ", " << EscapeXml(reader.Text(row, "time_utc")) << ", "
             << EscapeXml(ranks) << (ranks == "1" ? " rank" : " ranks")
             << (placement.empty() ? "" : ", placement " + EscapeXml(placement)) << "</p>\n<pre><code>"
             << WholeFlags(ReproducingCommand(reader.Text(row, "command_line"))) << "</code></pre>\n";
      }
    }
    if (num_runs > kMaxRuns)
      out_ << "<p>And " << num_runs - kMaxRuns
           << " more; <code>summarize --format=csv</code> lists them in its table runs.</p>\n";
  }

  void WriteFlags() {
    if (flags_.empty()) return;
    out_ << "<h2 id=\"flags\">Validity flags</h2>\n<p>Reasons, found in the samples themselves, not to rely "
            "on a row.</p>\n<dl class=\"flag-list\">\n";
    for (const Flag flag : flags_) {
      out_ << "<dt id=\"" << FlagAnchor(flag) << "\"><code>" << EscapeXml(WordOf(flag)) << "</code></dt><dd>"
           << WithCode(ExplanationOf(flag)) << "</dd>\n";
    }
    out_ << "</dl>\n";
  }

  const ReportContents& contents_;
  const StrategyStyles styles_;
  std::ostream& out_;
  const std::set<Flag> flags_;
  std::vector<const Table*> shown_;  // in the order of their numbers, from 1
  std::vector<const Table*> runs_;
};

}  // namespace

std::string ReproducingCommand(const std::string& command_line) {
  const size_t program_end = std::min(command_line.find(' '), command_line.size());
  const std::string program = command_line.substr(0, program_end);
  const size_t name = program.rfind('/');
  if (name == std::string::npos || name == 0 || program.ends_with(".py")) return command_line;
  const size_t package = program.rfind('/', name - 1);
  const std::string directory = program.substr(package + 1, name - package - 1);
  if (directory != "bench") return command_line;
  return Join("./bazelw run //bench:", program.substr(name + 1), " --", command_line.substr(program_end));
}

void WriteReport(const ReportContents& contents, std::ostream& out) { Page(contents, out).Write(); }

}  // namespace gradsync::tools
