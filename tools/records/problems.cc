#include "tools/records/problems.h"

namespace gradsync::tools {

void Problems::Print(std::ostream& out) const {
  for (auto next = reasons_.begin(); next != reasons_.end();) {
    const auto& [place, reason] = *next;
    const auto& [path, first_line] = place;
    int64_t last_line = first_line;
    while (++next != reasons_.end() && next->first == std::pair(path, last_line + 1) &&
           next->second == reason) {
      ++last_line;
    }
    out << path;
    if (first_line > 0) out << ":" << first_line;
    if (last_line > first_line) out << "-" << last_line;
    out << ": " << reason;
    if (last_line > first_line) out << " (" << last_line - first_line + 1 << " lines)";
    out << "\n";
  }
}

}  // namespace gradsync::tools
