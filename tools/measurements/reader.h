#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "tools/measurements/measurement.h"

namespace gradsync::tools {

// Longer lines are rejected, so that a large file without newlines does not fill the memory.
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;

// The lines and files that could not be used, with reasons, for messages to the user.
class Problems {
 public:
  void AddLine(const std::string& path, int64_t line, std::string reason) {
    reasons_.emplace(std::pair(path, line), std::move(reason));
  }
  // Adds to the list of problems a file that could not be read completely.
  void AddFile(const std::string& path, std::string reason) { AddLine(path, 0, std::move(reason)); }

  int64_t count() const { return static_cast<int64_t>(reasons_.size()); }

  // Prints one line for each problem, "path:line: reason", ordered by path and line. Consecutive lines with
  // the same reason are printed as "path:3-7: reason (5 lines)".
  void Print(std::ostream& out) const;

 private:
  std::multimap<std::pair<std::string, int64_t>, std::string> reasons_;  // reasons by path and line
};

// The measurements of all strategies that one run (or, with --repeats, one set of launches) compared with one
// model, batch size, sequence length, ... There is at least one.
using Group = std::vector<Measurement>;

struct RecordSet {
  // Groups of the same run are neighbours in this vector. Runs, the groups of a run, and the measurements of
  // a group are in the order in which their records were read.
  std::vector<Group> groups;
  int64_t num_records = 0;  // number of records that were used
};

using RecordFilter = std::function<std::string(const bench::Record&)>;

// Reads the records of `inputs`, which are files or directories. Of a directory, reads the *.jsonl and
// *.jsonl.gz files in the order of their names, and no subdirectories. Files may be compressed by gzip,
// whatever their names. A file that is given twice is read once. Lines and files that cannot be used are left
// out and listed in `problems`, and so are records for which `why_unusable` returns a reason.
//
// The records of all ranks about the same configuration are combined into one measurement, and so are those
// of several launches of one run (`--repeats`). Throws InvalidInput if an input does not exist.
RecordSet ReadRecords(const std::vector<std::string>& inputs, const RecordFilter& why_unusable,
                      Problems* problems);

// Returns a message for `inputs` that have no records, which says what the first of them has instead:
// "results: no records (*.jsonl) in it, but quick-1/, quick-2/, a.txt".
std::string WhyNoRecords(const std::vector<std::string>& inputs);

}  // namespace gradsync::tools
