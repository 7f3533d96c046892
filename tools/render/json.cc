#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/render/render.h"
#include "tools/render/write_rows.h"

namespace gradsync::tools {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A million rows are written, so what needs no escapes is not looked at twice.
void AppendText(std::string_view text, std::string* out) {
  const bool is_plain = std::all_of(text.begin(), text.end(),
                                    [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (is_plain) {
    *out += '"';
    *out += text;
    *out += '"';
  } else {
    *out += Text(text);
  }
}

// The fewest digits that are read as the same number again. 2 is a whole number, 2.0 another that is one now.
void AppendNumber(double number, Kind kind, std::string* out) {
  if (!std::isfinite(number)) {
    *out += "null";
    return;
  }
  char text[32];
  const auto append = [&](auto value) {
    const std::string_view digits(text, std::to_chars(text, std::end(text), value).ptr);
    *out += digits;
    return digits;
  };
  if (kind == Kind::kInteger) {
    append(static_cast<int64_t>(number));
  } else if (append(number).find_first_of(".e") == std::string_view::npos) {
    *out += ".0";
  }
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
      *text += row > 0 ? ",\n[" : "\n[";
      for (const size_t i : shown) {
        if (i != shown.front()) *text += ',';
        if (table.is_text(i)) {
          AppendText(table.text(row, i), text);
        } else {
          AppendNumber(table.number(row, i), table.columns()[i].kind, text);
        }
      }
      *text += ']';
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
