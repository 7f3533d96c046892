#ifndef GRADSYNC_TOOLS_TABLES_PIVOT_H_
#define GRADSYNC_TOOLS_TABLES_PIVOT_H_

#include <functional>
#include <string>
#include <vector>

#include "tools/tables/fields.h"

// Rows beside each other, for people.
namespace gradsync::tools {

struct PivotOptions {
  std::string name;
  std::string title;
  // A section for each heading, with a column for each value. Otherwise a section for each value, with a
  // column for each heading.
  bool by_heading = false;
};

// A detail table: a line for the views that agree in `place`, and in each the values of the views with each
// heading. Lines are in the order of their places.
Table Pivot(const PivotOptions& options, const std::vector<View>& views,
            const std::vector<Field<View>>& place, const std::function<std::string(const View&)>& heading_of,
            const std::vector<Field<View>>& values);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_PIVOT_H_
