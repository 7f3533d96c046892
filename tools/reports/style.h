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

struct StrategyStyle {
  std::string classes;
  size_t marker = 0;  // see Svg::Marker
};

// One colour and marker for each strategy, everywhere in a report: in the order in which the tables name
// them, grey for those that do not synchronise; after eleven the colours begin again. "pytorch_naive" looks
// like "naive", dashed. Of the palettes (one for light, one for dark) the first colours were chosen to stay
// apart for people with protanopia, deuteranopia or tritanopia, and each stands out from the page by at least
// 3 : 1.
class StrategyStyles {
 public:
  explicit StrategyStyles(const std::vector<Table>& tables);

  // What no table has is grey.
  StrategyStyle Of(const std::string& strategy) const;

 private:
  std::map<std::string, StrategyStyle> styles_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_STYLE_H_
