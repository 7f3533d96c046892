#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/render/render.h"
#include "tools/render/section.h"

namespace gradsync::tools {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Returns a cell; null for NaN. 2 is a number of an integer column, and 2.0 is a number of another column.
Json Cell(const Table& table, size_t row, size_t column) {
  if (table.is_text(column)) return table.text(row, column);
  const double number = table.number(row, column);
  const bool is_whole = table.columns()[column].kind == Kind::kInteger && std::isfinite(number);
  return is_whole ? Json(static_cast<int64_t>(number)) : Json(number);
}

void WriteTable(const Table& table, std::ostream& out) {
  std::vector<size_t> shown;
  Json names = Json::array();
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i].audience == Audience::kPeople) continue;
    shown.push_back(i);
    names.push_back(table.columns()[i].name);
  }
  out << "{\"name\":" << Text(table.name()) << ",\"columns\":" << Text(names) << ",\"rows\":[";
  for (size_t row = 0; row < table.num_rows(); ++row) {
    Json cells = Json::array();
    for (const size_t i : shown) cells.push_back(Cell(table, row, i));
    out << (row > 0 ? ",\n" : "\n") << Text(cells);
  }
  out << "]";
  if (!table.findings().empty()) out << ",\"findings\":" << Text(Json(table.findings()));
  out << "}";
}

// Returns the table as users see it.
Json ShownOf(const Table& table) {
  Json sections = Json::array();
  for (const Section& section : MakeSections(table)) {
    Json rows = Json::array();
    for (const std::vector<Shown>& cells : section.rows) {
      Json& row = rows.emplace_back(Json::array());
      for (const Shown& cell : cells) row.push_back(MarkdownOf(cell));
    }
    sections.push_back({{"title", section.title}, {"columns", section.headers}, {"rows", std::move(rows)}});
  }
  return {{"name", table.name()},           {"title", table.title()},       {"constants", ConstantsOf(table)},
          {"is_detail", table.is_detail()}, {"findings", table.findings()}, {"notes", table.notes()},
          {"sections", std::move(sections)}};
}

Json RunOf(const RunText& run) {
  return {{"experiment", run.experiment}, {"run", run.run},         {"time", run.time},
          {"ranks", run.ranks},           {"command", run.command}, {"machine", run.machine},
          {"software", run.software}};
}

// Prints "name":[...] with one item in each line.
template <class Items, class Function>
void WriteList(const char* name, const Items& items, const Function& json_of, std::ostream& out) {
  out << ",\n\"" << name << "\":[";
  const char* gap = "\n";
  for (const auto& item : items) out << std::exchange(gap, ",\n") << Text(json_of(item));
  out << "]";
}

}  // namespace

void RenderJson(const Report& report, std::ostream& out) {
  out << "{\"tables\":[";
  bool is_first = true;
  std::vector<Table> shown;
  for (const Table& table : report.tables) {
    if (IsShown(table, /*with_details=*/true)) shown.push_back(table);
    if (table.audience() == Audience::kPeople) continue;
    if (!is_first) out << ",\n";
    is_first = false;
    WriteTable(table, out);
  }
  out << "]";
  WriteList("shown", shown, ShownOf, out);
  const auto explained = [](Warning warning) -> Json {
    return {{"name", WordOf(warning)}, {"meaning", ExplanationOf(warning)}};
  };
  WriteList("warnings", WarningsIn(report.tables), explained, out);
  WriteList("runs", report.runs, RunOf, out);
  out << "}\n";
}

}  // namespace gradsync::tools
