#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "model/error.h"
#include "tools/render/section.h"
#include "tools/render/text.h"
#include "tools/reports/figures.h"
#include "tools/reports/report.h"
#include "tools/tables/runs.h"

namespace gradsync::tools {
namespace {

constexpr char kTitle[] = "What gradient synchronisation costs";

// For links.
std::string FlagAnchor(Flag flag) { return Join("flag-", static_cast<int>(flag)); }

// Long names may break behind their underscores, so that numbers decide how wide a column is.
std::string Header(std::string_view name) { return absl::StrReplaceAll(EscapeXml(name), {{"_", "_<wbr/>"}}); }

// Names of variants may break between their options.
std::string NameHtml(const std::string& html) {
  return absl::StrReplaceAll(html, {{",", ",<wbr/>"}, {":", ":<wbr/>"}, {"@", "<wbr/>@"}});
}

// Each flag with a link to its explanation.
std::string CellHtml(const Shown& cell) {
  std::string html = cell.flags.empty() ? EscapeXml(cell.text) : "";
  for (const FlagOfRow& own : cell.flags) {
    html += Join("<a class=\"flag\" href=\"#", FlagAnchor(own.flag), "\" title=\"",
                 EscapeXml(ExplanationOf(own.flag)), "\">", EscapeXml(TextOf({own})), "</a> ");
  }
  return cell.is_strong ? "<strong>" + html + "</strong>" : html;
}

class Page {
 public:
  Page(const ReportContents& contents, std::ostream& out)
      : contents_(contents),
        tables_(contents.summary.report.tables),
        cells_(contents.summary.cells),
        runs_(contents.summary.runs),
        figures_(FiguresOf(contents.summary)),
        out_(out) {}

  void Write() {
    figures_.insert(figures_.end(), contents_.timelines.begin(), contents_.timelines.end());
    for (const Table& table : tables_) {
      if (IsShown(table, true) && table.num_rows() > 0) shown_.push_back(&table);
    }
    runs_.insert(runs_.end(), contents_.traced.runs.begin(), contents_.traced.runs.end());
    WriteHead();
    WriteFigures();
    WriteTables();
    WriteRuns();
    WriteFlags();
    out_ << "<footer>Made by gradsync’s <code>//tools:report</code> from " << contents_.summary.num_records
         << " records.";
    if (contents_.num_problems > 0)
      out_ << " Left out, because they could not be read: " << contents_.num_problems << " lines or files.";
    out_ << "</footer>\n</main>\n</body>\n</html>\n";
  }

 private:
  void WriteHead() {
    std::set<std::string> dates, models, machines, programs;
    for (const bench::Record* run : runs_) {
      if (!run->time_utc.empty()) dates.insert(run->time_utc.substr(0, 10));
      if (!run->published.empty()) continue;
      machines.insert(MachineOf(run->provenance));
      programs.insert(SoftwareOf(run->provenance));
    }
    for (const Cell& cell : cells_) {
      for (const Row& row : cell.rows) models.insert(row.config().StringOr("model", ""));
    }
    models.erase("");
    out_ << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
            // Not even by mistake does the page load anything.
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'\"/>\n<title>"
         << kTitle << "</title>\n<style>" << kChartStyleSheet << kPageStyleSheet
         << "</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"eyebrow\">gradsync report";
    if (!dates.empty()) out_ << " · " << EscapeXml(*dates.begin());
    if (dates.size() > 1) out_ << " to " << EscapeXml(*dates.rbegin());
    out_ << "</p>\n<h1>" << kTitle << "</h1>\n<dl class=\"subject\">\n";
    for (const auto& [name, values] :
         {std::pair{"model", &models}, {"machine", &machines}, {"software", &programs}}) {
      if (!values->empty())
        out_ << "<dt>" << name << "</dt><dd>" << EscapeXml(absl::StrJoin(*values, "; ")) << "</dd>\n";
    }
    out_ << "</dl>\n";
    out_ << "<ul class=\"findings\">\n";
    for (size_t i = 0; i < shown_.size(); ++i) {
      const Table& table = *shown_[i];
      if (table.is_detail()) continue;
      // Tables of one name have titles that say which runs they are of.
      const size_t colon = table.title().find(": ");
      const std::string place = colon == std::string::npos ? "" : table.title().substr(colon + 2);
      for (const std::string& finding : table.findings())
        out_ << "<li>" << (place.empty() ? "" : Join("<strong>", EscapeXml(place), ".</strong> "))
             << WithCode(finding) << FigureLinks(table) << LinkTo(Join("table-", i + 1), "Table", i + 1)
             << "</li>\n";
    }
    out_ << "</ul>\n</header>\n";
  }

  static std::string LinkTo(const std::string& anchor, const char* what, size_t number) {
    return Join(" <a class=\"ref\" href=\"#", anchor, "\">", what, " ", number, "</a>");
  }
  // To the figures that show a table's numbers.
  std::string FigureLinks(const Table& table) const {
    std::string links;
    for (size_t i = 0; i < figures_.size(); ++i) {
      if (figures_[i].table == table.name()) links += LinkTo("figure-" + figures_[i].id, "Figure", i + 1);
    }
    return links;
  }
  std::string TableLinks(std::string_view name) const {
    std::string links;
    for (size_t i = 0; i < shown_.size(); ++i) {
      if (shown_[i]->name() == name) links += LinkTo(Join("table-", i + 1), "Table", i + 1);
    }
    return links;
  }

  void WriteList(const char* css_class, const std::vector<std::string>& items) {
    if (items.empty()) return;
    out_ << "<ul class=\"" << css_class << "\">\n";
    for (const std::string& item : items) out_ << "<li>" << WithCode(item) << "</li>\n";
    out_ << "</ul>\n";
  }

  void WriteFigures() {
    if (!figures_.empty()) out_ << "<h2 id=\"figures\">Figures</h2>\n";
    for (size_t i = 0; i < figures_.size(); ++i) {
      const Figure& figure = figures_[i];
      out_ << "<figure id=\"figure-" << figure.id << "\">\n<p class=\"figure-title\">Figure " << i + 1 << ". "
           << WithCode(figure.title) << "</p>\n<ul class=\"key\">\n";
      for (const KeyEntry& entry : figure.key)
        out_ << "<li>" << entry.mark.Finish() << "<span>" << EscapeXml(entry.text) << "</span></li>\n";
      const bool is_wide = figure.panels[0].chart.width() > kChartWidth;  // scrolls inside itself on a phone
      out_ << "</ul>\n<div class=\""
           << (is_wide                         ? "wide"
               : figure.panels.size() % 2 == 0 ? "panels pairs"
                                               : "panels")
           << "\"" << (is_wide ? " role=\"region\" tabindex=\"0\" aria-label=\"the figure\"" : "") << ">\n";
      for (const Panel& panel : figure.panels) {
        out_ << "<div>\n";
        if (!panel.title.empty()) out_ << "<p class=\"chart-title\">" << EscapeXml(panel.title) << "</p>\n";
        out_ << panel.chart.Finish() << "</div>\n";
      }
      out_ << "</div>\n<figcaption>" << EscapeXml(figure.caption) << TableLinks(figure.table)
           << "</figcaption>\n</figure>\n";
    }
  }

  void WriteTables() {
    if (!shown_.empty()) out_ << "<h2 id=\"tables\">Tables</h2>\n";
    for (size_t i = 0; i < shown_.size(); ++i) WriteTable(*shown_[i], i + 1);
  }

  // As people see it: title, what is the same in all rows, the first section; the rest unfolds.
  void WriteTable(const Table& table, size_t number) {
    const std::string id = Join("table-", number), links = FigureLinks(table);
    out_ << "<section class=\"table\" id=\"" << id << "\">\n<h3 id=\"" << id << "-title\">Table " << number
         << ". " << EscapeXml(table.title()) << "</h3>\n";
    if (!links.empty()) out_ << "<p class=\"constants\">Shown in" << links << "</p>\n";
    const std::string constants = ConstantsOf(table);
    if (!constants.empty()) out_ << "<p class=\"constants\">All rows: " << EscapeXml(constants) << ".</p>\n";
    if (table.is_detail()) WriteList("findings", table.findings());
    const std::vector<Section> sections = SectionsOf(table);
    const size_t num_open = table.is_detail() ? 0 : 1;
    for (size_t i = 0; i < sections.size(); ++i) {
      if (i == num_open)
        out_ << "<details><summary>" << (i == 0 ? "Show the table, " : "More columns of these ")
             << table.num_rows() << " rows</summary>\n";
      WriteSection(sections[i], id);
    }
    if (sections.size() > num_open) out_ << "</details>\n";
    WriteList("notes", table.notes());
    out_ << "</section>\n";
  }

  // Scrolls inside itself where it is too wide.
  void WriteSection(const Section& section, const std::string& table_id) {
    if (!section.title.empty()) out_ << "<p class=\"panel-title\">" << EscapeXml(section.title) << "</p>\n";
    out_ << "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"" << table_id
         << "-title\"><table>\n<thead><tr>";
    const auto css_class = [&](size_t column) { return section.is_text[column] ? " class=\"t\">" : ">"; };
    for (size_t column = 0; column < section.headers.size(); ++column)
      out_ << "<th scope=\"col\"" << css_class(column) << Header(section.headers[column]) << "</th>";
    out_ << "</tr></thead>\n<tbody>\n";
    for (const std::vector<Shown>& row : section.rows) {
      out_ << "<tr>";
      for (size_t column = 0; column < row.size(); ++column) {
        const char* const tag = column == 0 ? "th" : "td";
        out_ << "<" << tag << (column == 0 ? " scope=\"row\"" : "") << css_class(column)
             << (column == 0 ? NameHtml(CellHtml(row[column])) : CellHtml(row[column])) << "</" << tag << ">";
      }
      out_ << "</tr>\n";
    }
    out_ << "</tbody></table></div>\n";
  }

  void WriteRuns() {
    if (runs_.empty()) return;
    out_ << "<h2 id=\"runs\">Runs, and commands to repeat them</h2>\n"
            "<p>Each run’s own command line, in a checkout of its commit.</p>\n";
    std::string last_place;
    for (const bench::Record* const run : runs_) {
      const bench::Provenance& provenance = run->provenance;
      std::string place =
          MachineOf(provenance) + "; " + SoftwareOf(provenance) + "; clock " + provenance.clock;
      if (run->published.empty() && place != last_place) out_ << "<p>On " << EscapeXml(place) << ".</p>\n";
      last_place = std::move(place);
      out_ << "<p class=\"meta\">"
           << EscapeXml(
                  Join(run->experiment, ", run ", run->run_id, ", ", run->time_utc, ", ", RanksOf(*run)))
           << "</p>\n<pre><code>" << EscapeXml(ReproducingCommand(provenance.command_line))
           << "</code></pre>\n";
    }
  }

  void WriteFlags() {
    const std::set<Flag> flags = FlagsIn(tables_);
    if (flags.empty()) return;
    out_ << "<h2 id=\"flags\">Validity flags</h2>\n<p>Reasons, found in the samples themselves, not to rely "
            "on a row.</p>\n<dl>\n";
    for (const Flag flag : flags) {
      out_ << "<dt id=\"" << FlagAnchor(flag) << "\"><code>" << EscapeXml(WordOf(flag)) << "</code></dt><dd>"
           << WithCode(ExplanationOf(flag)) << "</dd>\n";
    }
    out_ << "</dl>\n";
  }

  const ReportContents& contents_;
  const std::vector<Table>& tables_;
  const std::vector<Cell>& cells_;
  std::vector<const bench::Record*> runs_;  // one record of each
  std::vector<Figure> figures_;             // figure n is at n - 1
  std::vector<const Table*> shown_;         // table n is at n - 1
  std::ostream& out_;
};

}  // namespace

void WriteReport(const ReportContents& contents, std::ostream& out) { Page(contents, out).Write(); }

}  // namespace gradsync::tools
