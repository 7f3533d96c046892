#include "tools/records/problems.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gradsync::tools {

void Problems::AddLine(const std::string& path, int64_t line, std::string reason) {
  ++count_;
  // A million bad lines must not cost a million strings.
  if (!problems_.empty()) {
    Problem& last = problems_.back();
    if (last.last_line + 1 == line && last.path == path && last.reason == reason) {
      last.last_line = line;
      return;
    }
  }
  problems_.push_back({path, line, line, std::move(reason)});
}

void Problems::AddFile(const std::string& path, std::string reason) {
  ++count_;
  problems_.push_back({path, 0, 0, std::move(reason)});
}

void Problems::Print(std::ostream& out) {
  std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.path, a.first_line) < std::tie(b.path, b.first_line);
  });
  for (const Problem& problem : problems_) {
    out << problem.path;
    if (problem.first_line > 0) out << ":" << problem.first_line;
    if (problem.last_line > problem.first_line) out << "-" << problem.last_line;
    out << ": " << problem.reason;
    if (problem.last_line > problem.first_line) {
      out << " (" << problem.last_line - problem.first_line + 1 << " lines)";
    }
    out << "\n";
  }
}

}  // namespace gradsync::tools
