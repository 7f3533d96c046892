#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/render/render.h"

namespace gradsync::tools {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Null for what is no number. 2 is a whole number, 2.0 another that is one now.
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

}  // namespace

void RenderJson(const Report& report, std::ostream& out) {
  out << "{\"tables\":[";
  bool is_first = true;
  for (const Table& table : report.tables) {
    if (table.audience() == Audience::kPeople) continue;
    if (!is_first) out << ",\n";
    is_first = false;
    WriteTable(table, out);
  }
  out << "]}\n";
}

}  // namespace gradsync::tools
