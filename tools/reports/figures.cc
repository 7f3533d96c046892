#include "tools/reports/figures.h"

#include "model/error.h"
#include "tools/render/text.h"

namespace gradsync::tools {

void AddPanel(std::string_view title, std::string_view facts, std::string_view svg, Figure* figure) {
  if (++figure->num_panels > kMaxPanels) return;
  figure->panels.push_back(Join(
      "<div>\n<p class=\"chart-title\">", EscapeXml(title), "</p>\n",
      facts.empty() ? "" : Join("<p class=\"chart-facts\">", EscapeXml(facts), "</p>\n"), svg, "</div>\n"));
}

std::string AddFlags(const TableReader& table, size_t row, Figure* figure) {
  const Flags flags = table.FlagsOf(row);
  for (const FlagOfRow& own : flags) figure->flags.insert(own.flag);
  return flags.empty() ? "" : " (" + TextOf(flags) + ")";
}

std::string FactsOf(const TableReader& table, size_t row, std::span<const Fact> facts) {
  std::string text;
  for (const Fact& fact : facts) {
    if (table.IsConstant(fact.column)) continue;
    std::string value = table.Any(row, fact.column);
    if (value.empty()) continue;
    const std::string_view column = fact.column;
    // A run's id ends in four digits of its own.
    if (column == "run" && !value.starts_with("published")) {
      value = "run " + value.substr(value.rfind('-') + 1);
    }
    const bool is_one = column == "world_size" && value == "1";
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
