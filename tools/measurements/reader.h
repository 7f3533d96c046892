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

// The maximum length of a line. Longer lines are rejected, because a large file without newlines must not
// fill the memory.
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;

// The lines that could not be used. Every line that is omitted from tables is listed here.
class Problems {
 public:
  void AddLine(const std::string& path, int64_t line, std::string reason) {
    reasons_.emplace(std::pair(path, line), std::move(reason));
  }
  // Adds a file that could not be read, or only in part.
  void AddFile(const std::string& path, std::string reason) { AddLine(path, 0, std::move(reason)); }

  int64_t count() const { return static_cast<int64_t>(reasons_.size()); }

  // Prints one line for each problem: "path:line: reason", or, for consecutive lines with one reason,
  // "path:3-7: reason (5 lines)". Problems are ordered by paths and lines.
  void Print(std::ostream& out) const;

 private:
  std::multimap<std::pair<std::string, int64_t>, std::string> reasons_;  // reasons by path and line
};

// The measurements of all variants in one setting, from one run or from one set of launches (`--repeats`). A
// group has at least one variant, and all values with the scope kSetting are equal.
using Group = std::vector<Measurement>;

struct RecordSet {
  // The groups of one run are consecutive. Runs, the groups of a run and the measurements of a group are in
  // the order in which they were first read.
  std::vector<Group> groups;
  int64_t num_records = 0;  // number of records in the groups
};

// Returns the reason why a record cannot be used; empty if it can be used.
using RecordFilter = std::function<std::string(const bench::Record&)>;

// Reads the records of the inputs, which are files or directories. Of a directory, reads every *.jsonl and
// *.jsonl.gz file in the order of names, and no subdirectories. Files may be compressed by gzip, whatever
// their names. A file that is given twice is read once. A record combines
// all its lines in the file. Lines and files that cannot be read or used are omitted and listed in
// `problems`, and a second record of a rank is also omitted and listed.
//
// Records with equal experiment, run_id, world_size, setting and variant are the ranks of one launch. The
// launches of one set (the fact launch_set, from `--repeats`) are combined into one measurement, which has
// the configuration, provenance and run id of the first launch. All records are kept in memory. Throws
// InvalidInput if an input does not exist.
RecordSet ReadRecords(const std::vector<std::string>& inputs, const RecordFilter& why_unusable,
                      Problems* problems);

// Returns one line about inputs without records: the names of the inputs, and the contents of the first
// input: "results: no records (*.jsonl) in it, but quick-1/, quick-2/ and a.txt".
std::string WhyNoRecords(const std::vector<std::string>& inputs);

}  // namespace gradsync::tools
