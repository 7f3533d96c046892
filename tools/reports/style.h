#ifndef GRADSYNC_TOOLS_REPORTS_STYLE_H_
#define GRADSYNC_TOOLS_REPORTS_STYLE_H_

#include <map>
#include <string>
#include <vector>

#include "tools/tables/table.h"

// How the report looks.
namespace gradsync::tools {

// The style sheet, for a <style> element: light and dark, from a phone's width up, and for paper.
extern const char kReportStyleSheet[];

// One colour for each strategy, everywhere in a report. Strategies that synchronise after backward have warm
// colours, those that overlap with it cool ones. The palettes (one for light, one for dark) were chosen so
// that any two of their colours stay apart for people with protanopia, deuteranopia or tritanopia, and each
// stands out from the page by at least 3 : 1.
class StrategyStyles {
 public:
  // Strategies that are not gradsync's own get the remaining colours in the order in which the tables name
  // them; "pytorch_naive" looks like "naive", dashed.
  explicit StrategyStyles(const std::vector<Table>& tables);

  // The classes of a strategy; what no table has is grey.
  std::string Of(const std::string& strategy) const;
  // Its marker, see Svg::Marker.
  size_t MarkerOf(const std::string& strategy) const;

 private:
  struct Style {
    std::string classes;
    size_t marker = 0;
  };
  std::map<std::string, Style> styles_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_STYLE_H_
