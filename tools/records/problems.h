#ifndef GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_
#define GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>

namespace gradsync::tools {

// The lines that could not be used. Nothing is left out of a table without appearing here.
class Problems {
 public:
  void AddLine(const std::string& path, int64_t line, std::string reason) {
    reasons_.emplace(std::pair(path, line), std::move(reason));
  }
  // A file that could not be read (further).
  void AddFile(const std::string& path, std::string reason) { AddLine(path, 0, std::move(reason)); }

  int64_t count() const { return static_cast<int64_t>(reasons_.size()); }

  // One line for each: "path:line: reason"; for neighbouring lines with one reason "path:3-7: reason (5
  // lines)". In the order of paths and lines.
  void Print(std::ostream& out) const;

 private:
  std::multimap<std::pair<std::string, int64_t>, std::string> reasons_;  // by path and line
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_
