#include "tools/reports/report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "model/error.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/reports/html.h"
#include "tools/reports/style.h"
#include "tools/reports/summary.h"

namespace gradsync::tools {
namespace {

constexpr char kRuns[] = "runs";
// More commands than this are counted, not listed.
constexpr size_t kMaxRuns = 100;

// "n<100" -> "flag-n-100", for links.
std::string FlagAnchor(std::string_view flag) {
  std::string anchor = "flag-";
  for (const char c : flag) {
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
  explicit Page(const ReportContents& contents)
      : contents_(contents), styles_(contents.tables), legend_(FlagLegend(contents.tables)) {
    for (const Table& table : contents_.tables) {
      if (table.name() == kRuns || table.audience() == Audience::kMachines || table.num_rows() == 0) continue;
      shown_.push_back(&table);
    }
  }

  void Write(std::ostream& out) {
    WriteHead(out);
    WriteSummary(out);
    WriteFigures(out);
    WriteTables(out);
    WriteMachines(out);
    WriteCommands(out);
    WriteFlags(out);
    out << "<footer>Made by gradsync’s <code>//tools:report</code> from " << contents_.num_records
        << " records.";
    if (contents_.num_problems > 0)
      out << " Left out, because they could not be read: " << contents_.num_problems << " lines or files.";
    out << "</footer>\n</main>\n</body>\n</html>\n";
  }

 private:
  void WriteHead(std::ostream& out) const {
    out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
           "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
           // Not even by mistake does the page load anything.
           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
           "'unsafe-inline'\"/>\n<title>"
        << EscapeXml(contents_.title) << "</title>\n<style>" << kReportStyleSheet
        << "</style>\n</head>\n<body>\n<main>\n";
  }

  void WriteSummary(std::ostream& out) const {
    out << "<header>\n<p class=\"eyebrow\">gradsync report" << EscapeXml(Dates()) << "</p>\n<h1>"
        << EscapeXml(contents_.title) << "</h1>\n"
        << SummaryOf(contents_.tables)
        << "<nav aria-label=\"Contents\"><a href=\"#figures\">Figures</a> <a href=\"#tables\">Tables</a> <a "
           "href=\"#machine\">Machine</a> <a href=\"#reproduce\">Commands</a>"
        << (legend_.empty() ? "" : " <a href=\"#flags\">Validity flags</a>") << "</nav>\n</header>\n";
  }

  // " · 2026-11-21", of the first and the last run.
  std::string Dates() const {
    std::string first, last;
    for (const Table* runs : RunTables()) {
      const TableReader reader(*runs);
      for (size_t row = 0; row < reader.num_rows(); ++row) {
        const std::string date = reader.Text(row, "time_utc").substr(0, 10);
        if (date.empty()) continue;
        if (first.empty() || date < first) first = date;
        last = std::max(last, date);
      }
    }
    return first.empty() ? "" : " · " + first + (first == last ? "" : " to " + last);
  }

  std::vector<const Table*> RunTables() const {
    std::vector<const Table*> tables;
    for (const Table& table : contents_.tables) {
      if (table.name() == kRuns) tables.push_back(&table);
    }
    for (const Table& table : contents_.timeline_runs) tables.push_back(&table);
    return tables;
  }

  const Table* Find(std::string_view name) const {
    for (const Table& table : contents_.tables) {
      if (table.name() == name) return &table;
    }
    return nullptr;
  }

  std::vector<Figure> Figures() const {
    std::vector<Figure> figures;
    const auto add = [&](std::optional<Figure> figure) {
      if (figure) figures.push_back(std::move(*figure));
    };
    if (const Table* ddp = Find("ddp")) add(StepTimeFigure(*ddp, styles_));
    if (const Table* all_reduce = Find("all_reduce")) add(BandwidthFigure(*all_reduce));
    if (const Table* compare = Find("compare")) add(SweepFigure(*compare, styles_));
    for (size_t i = 0; i < contents_.timelines.size(); ++i) {
      const TimelinePicture& timeline = contents_.timelines[i];
      add(Figure{.id = Join("timeline-", i + 1),
                 .panels = {timeline.svg},
                 .title = timeline.title,
                 .caption = "One step of each strategy, the one of median length, on one scale of time. "
                            "Tracing adds to a step, so its times are not those of the tables.",
                 .is_wide = true});
    }
    if (const Table* grid = Find("grid")) add(GridFigure(*grid, styles_));
    return figures;
  }

  // "table 3" or "tables 3 to 5": where a figure's numbers are, in the table itself or its form for people.
  std::string TableReference(const std::string& name) const {
    size_t first = 0, last = 0;
    for (size_t i = 0; i < shown_.size(); ++i) {
      const std::string& shown = shown_[i]->name();
      if (shown != name && shown != name + "_side_by_side" && shown != name + "_block") continue;
      if (first == 0) first = i + 1;
      last = i + 1;
    }
    if (first == 0) return "";
    const std::string text = first == last ? Join("table ", first) : Join("tables ", first, " to ", last);
    return Join("<a href=\"#table-", first, "\">", text, "</a>");
  }

  std::string FlagChip(std::string_view flag) const {
    const auto explained = legend_.find(std::string(flag.substr(0, flag.find(':'))));
    if (explained == legend_.end()) return Join("<span class=\"flag\">", EscapeXml(flag), "</span>");
    return Join("<a class=\"flag\" href=\"#", FlagAnchor(explained->first), "\" title=\"",
                EscapeXml(explained->second), "\">", EscapeXml(flag), "</a>");
  }

  void WriteFigures(std::ostream& out) const {
    const std::vector<Figure> figures = Figures();
    if (figures.empty()) return;
    out << "<h2 id=\"figures\">Figures</h2>\n";
    for (size_t i = 0; i < figures.size(); ++i) WriteFigure(figures[i], i + 1, out);
  }

  void WriteFigure(const Figure& figure, size_t number, std::ostream& out) const {
    const bool is_single = figure.panels.size() == 1 && !figure.is_wide;
    out << "<figure id=\"figure-" << figure.id << "\"" << (is_single ? " class=\"single\"" : "") << ">\n"
        << figure.key;
    if (figure.is_wide) {
      out << "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"" << EscapeXml(figure.title)
          << "\">\n";
    } else {
      const bool in_pairs = figure.in_pairs || figure.panels.size() == 2 || figure.panels.size() == 4;
      out << "<div class=\"panels" << (in_pairs ? " pairs" : "") << "\">\n";
    }
    for (const std::string& panel : figure.panels) out << panel;
    out << "</div>\n<figcaption><strong>Figure " << number << ". " << EscapeXml(figure.title) << ".</strong> "
        << figure.caption;
    const std::string table = TableReference(figure.table);
    if (!table.empty()) out << " The numbers are in " << table << ".";
    if (!figure.flags.empty()) {
      out << " Some of these rows carry flags: ";
      for (const std::string& flag : figure.flags) out << FlagChip(flag) << " ";
    }
    out << "</figcaption>\n</figure>\n";
  }

  std::string Cell(std::string_view column, std::string_view text) const {
    if (column == "strategy" && !text.empty()) {
      return Join("<span class=\"dot ", styles_.Of(std::string(text)), "\"></span>", EscapeXml(text));
    }
    if (column != "flags") return EscapeXml(text);
    std::string html;
    std::istringstream flags{std::string(text)};
    for (std::string flag; flags >> flag;) html += FlagChip(flag) + " ";
    return html;
  }

  void WriteTables(std::ostream& out) const {
    if (shown_.empty()) return;
    out << "<h2 id=\"tables\">Tables</h2>\n";
    HtmlTableOptions options;
    options.shows_note = [](const std::string& note) { return !ExplainsFlag(note); };
    options.cell = [this](std::string_view column, std::string_view text) { return Cell(column, text); };
    for (size_t i = 0; i < shown_.size(); ++i) {
      options.id = Join("table-", i + 1);
      options.heading = Join("Table ", i + 1, ". ");
      RenderHtmlTable(*shown_[i], options, out);
    }
  }

  void WriteMachines(std::ostream& out) const {
    out << "<h2 id=\"machine\">Machine and provenance</h2>\n";
    std::vector<Machine> machines;
    for (const Table* runs : RunTables()) {
      for (Machine& machine : MachinesOf(*runs)) {
        const auto same = std::find_if(machines.begin(), machines.end(),
                                       [&](const Machine& other) { return other.facts == machine.facts; });
        if (same == machines.end()) {
          machines.push_back(std::move(machine));
        } else {
          same->runs.insert(same->runs.end(), machine.runs.begin(), machine.runs.end());
        }
      }
    }
    for (const Machine& machine : machines) {
      out << "<dl>\n";
      for (const auto& [name, value] : machine.facts)
        out << "<dt>" << EscapeXml(name) << "</dt><dd>" << EscapeXml(value) << "</dd>\n";
      out << "<dt>runs</dt><dd>";
      for (size_t i = 0; i < std::min(machine.runs.size(), kMaxRuns); ++i)
        out << (i > 0 ? ", " : "") << EscapeXml(machine.runs[i]);
      if (machine.runs.size() > kMaxRuns) out << " and " << machine.runs.size() - kMaxRuns << " more";
      out << "</dd>\n</dl>\n";
    }
  }

  void WriteCommands(std::ostream& out) const {
    out << "<h2 id=\"reproduce\">Commands to reproduce it</h2>\n"
           "<p>Each run’s own command line, in a checkout of the commit named above.</p>\n";
    size_t num_written = 0, num_runs = 0;
    for (const Table* runs : RunTables()) {
      const TableReader reader(*runs);
      num_runs += reader.num_rows();
      for (size_t row = 0; row < reader.num_rows() && num_written < kMaxRuns; ++row, ++num_written) {
        const std::string ranks = reader.Any(row, "world_size"), placement = reader.Text(row, "placement");
        out << "<p class=\"meta\">" << EscapeXml(reader.Text(row, "experiment")) << ", run "
            << EscapeXml(reader.Text(row, "run")) << ", " << EscapeXml(reader.Text(row, "time_utc")) << ", "
            << EscapeXml(ranks) << (ranks == "1" ? " rank" : " ranks")
            << (placement.empty() ? "" : ", placement " + EscapeXml(placement)) << "</p>\n<pre><code>"
            << WholeFlags(ReproducingCommand(reader.Text(row, "command_line"))) << "</code></pre>\n";
      }
    }
    if (num_written < num_runs)
      out << "<p>And " << num_runs - num_written
          << " more; <code>summarize --format=csv</code> lists them in its table runs.</p>\n";
  }

  void WriteFlags(std::ostream& out) const {
    if (legend_.empty()) return;
    out << "<h2 id=\"flags\">Validity flags</h2>\n<p>Reasons, found in the samples themselves, not to rely "
           "on "
           "a row.</p>\n<dl class=\"flag-list\">\n";
    for (const auto& [flag, explanation] : legend_) {
      out << "<dt id=\"" << FlagAnchor(flag) << "\"><code>" << EscapeXml(flag) << "</code></dt><dd>"
          << WithCode(explanation) << "</dd>\n";
    }
    out << "</dl>\n";
  }

  const ReportContents& contents_;
  const StrategyStyles styles_;
  const std::map<std::string, std::string> legend_;
  std::vector<const Table*> shown_;  // in the order of their numbers, from 1
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

void WriteReport(const ReportContents& contents, std::ostream& out) { Page(contents).Write(out); }

}  // namespace gradsync::tools
