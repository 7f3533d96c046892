#ifndef GRADSYNC_TOOLS_TABLES_LINKS_H_
#define GRADSYNC_TOOLS_TABLES_LINKS_H_

#include <functional>
#include <map>
#include <set>
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

struct Links {
  std::vector<OverLinks> rows{};
  std::set<double, std::greater<>> rates{};
  std::set<std::string> backends{};  // without a link
};

// Refers to the cells. Without rows if there are fewer than two rates.
Links LinksOf(const std::vector<Cell>& cells);

// At which of the measured rates the intervals show that the row is faster, and at which slower: "up to 1
// Gbit/s".
std::string FasterWhere(const OverLinks& row);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_LINKS_H_
