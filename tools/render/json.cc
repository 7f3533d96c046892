#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/render/render.h"

namespace gradsync::tools {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The fewest digits that are read as the same number again. 2 is a whole number, 2.0 another that is one now.
std::string NumberText(double number, Kind kind) {
  if (!std::isfinite(number)) return "null";
  if (kind == Kind::kInteger) return std::to_string(static_cast<int64_t>(number));
  char digits[32];
  std::string text(digits, std::to_chars(digits, std::end(digits), number).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
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
    out << (row > 0 ? ",\n[" : "\n[");
    for (const size_t i : shown) {
      if (i != shown.front()) out << ',';
      out << (table.is_text(i) ? Text(table.text(row, i))
                               : NumberText(table.number(row, i), table.columns()[i].kind));
    }
    out << ']';
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
