#ifndef GRADSYNC_TOOLS_REPORTS_STYLE_H_
#define GRADSYNC_TOOLS_REPORTS_STYLE_H_

namespace gradsync::tools {

// How charts look, in a page or a document of their own, light and dark. Of the palettes (one for light, one
// for dark) the first colours were chosen to stay apart for people with protanopia, deuteranopia or
// tritanopia, and each stands out from the page by at least 3 : 1.
extern const char kChartStyleSheet[];
// How the page around them looks, from a phone's width up, and on paper.
extern const char kPageStyleSheet[];

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_STYLE_H_
