#include <nlohmann/json.hpp>

#include "tools/render.h"
#include "tools/write_rows.h"

namespace gradsync::tools {
namespace {

using Json = nlohmann::json;

// Row by row, so that a million of them need no second copy in memory.
std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A whole number is written as one: 2, not 2.0.
Json NumberOf(const Table& table, size_t row, size_t column) {
  const double number = table.number(row, column);
  if (table.columns()[column].kind == Kind::kInteger && number == number) return static_cast<int64_t>(number);
  return number;
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
  const auto append = [&](size_t first, size_t last, std::string* text) {
    for (size_t row = first; row < last; ++row) {
      Json cells = Json::array();
      for (const size_t i : shown) {
        cells.push_back(table.is_text(i) ? Json(table.text(row, i)) : NumberOf(table, row, i));
      }
      *text += row > 0 ? ",\n" : "\n";
      *text += Text(cells);
    }
  };
  WriteRows(table.num_rows(), append, out);
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
