#ifndef GRADSYNC_TOOLS_TABLES_LINKS_H_
#define GRADSYNC_TOOLS_TABLES_LINKS_H_

#include <map>
#include <string>
#include <vector>

#include "tools/tables/rows.h"
#include "tools/tables/views.h"

// Over which links a strategy pays: runs that differ in the rate of the link alone (`link_rate`). Beside them
// runs of the same variants without a link.
namespace gradsync::tools {

// A variant that is compared with a baseline.
struct OverLinks {
  View any;
  std::map<double, View> by_rate{};          // bits per second
  std::map<std::string, View> by_backend{};  // without a link
};

// Refers to the cells. Empty with fewer than two rates.
std::vector<OverLinks> LinksOf(const std::vector<Cell>& cells);

// At which of the measured rates the intervals show that the row is faster, and at which slower: "up to 1
// Gbit/s".
std::string FasterWhere(const OverLinks& row);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_LINKS_H_
