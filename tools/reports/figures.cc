#include "tools/reports/figures.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "model/error.h"
#include "tools/charts/chart.h"
#include "tools/render/text.h"

namespace gradsync::tools {

TableReader::TableReader(const Table& table) : table_(table) {
  for (size_t i = 0; i < table.columns().size(); ++i) columns_.emplace(table.columns()[i].name, i);
}

double TableReader::Number(size_t row, std::string_view column) const {
  const auto found = columns_.find(column);
  if (found == columns_.end() || table_.is_text(found->second)) return kNoValue;
  return table_.number(row, found->second);
}

std::string TableReader::Text(size_t row, std::string_view column) const {
  const auto found = columns_.find(column);
  if (found == columns_.end() || !table_.is_text(found->second)) return "";
  return std::string(table_.text(row, found->second));
}

std::string TableReader::Any(size_t row, std::string_view column) const {
  const double number = Number(row, column);
  return std::isnan(number) ? Text(row, column) : Join(number);
}

bool TableReader::IsConstant(std::string_view column) const {
  const auto found = columns_.find(column);
  return found == columns_.end() || table_.is_constant(found->second);
}

void AddFlags(const std::string& flags, std::set<std::string>* words) {
  std::istringstream stream(flags);
  for (std::string flag; stream >> flag;) words->insert(flag.substr(0, flag.find(':')));
}

std::string PanelOf(std::string_view title, std::string_view facts, std::string_view svg) {
  std::string html = Join("<div>\n<p class=\"chart-title\">", EscapeXml(title), "</p>\n");
  if (!facts.empty()) html += Join("<p class=\"chart-facts\">", EscapeXml(facts), "</p>\n");
  return Join(html, svg, "</div>\n");
}

std::string FactsOf(const TableReader& table, size_t row, std::span<const Fact> facts) {
  std::string text;
  for (const Fact& fact : facts) {
    if (table.IsConstant(fact.column)) continue;
    std::string value = table.Any(row, fact.column);
    if (value.empty()) continue;
    // A run's id ends in four digits of its own.
    if (std::string_view(fact.column) == "run" && !value.starts_with("published")) {
      value = "run " + value.substr(value.rfind('-') + 1);
    }
    const bool is_one = value == "1" && std::string_view(fact.behind) == " ranks";
    text += Join(text.empty() ? "" : ", ", fact.before, value, is_one ? " rank" : fact.behind);
  }
  return text;
}

std::string KeyEntry(std::string_view svg_content, std::string_view text) {
  return Join("<li><svg viewBox='0 0 18 14' aria-hidden='true'>", svg_content, "</svg><span>", text,
              "</span></li>");
}

std::string KeyList(const std::vector<std::string>& entries) {
  std::string html = "<ul class=\"key\">\n";
  for (const std::string& entry : entries) html += entry + "\n";
  return html + "</ul>\n";
}

}  // namespace gradsync::tools
