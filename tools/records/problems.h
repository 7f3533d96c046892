#ifndef GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_
#define GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace gradsync::tools {

// The lines that could not be used. Nothing is left out of a table without appearing here.
class Problems {
 public:
  void AddLine(const std::string& path, int64_t line, std::string reason);
  // A file that could not be read (further).
  void AddFile(const std::string& path, std::string reason);

  int64_t count() const { return count_; }

  // One line for each: "path:line: reason"; for neighbouring lines with one reason "path:3-7: reason (5
  // lines)". In the order of paths and lines.
  void Print(std::ostream& out);

 private:
  struct Problem {
    std::string path;
    int64_t first_line = 0;  // 0: the file as a whole
    int64_t last_line = 0;
    std::string reason;
  };

  std::vector<Problem> problems_;
  int64_t count_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_PROBLEMS_H_
