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
#include "tools/records/measurement.h"

namespace gradsync::tools {

// Longer lines are not records: a large file without newlines must not fill the memory.
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;

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

// The variants of a setting (bench/records/names.h) of one run, or of one set of launches, at least one.
using Group = std::vector<Measurement>;

struct RecordSet {
  // Groups of a run are neighbours. Runs, the groups of a run and the measurements of a group are in the
  // order in which they were first met.
  std::vector<Group> groups;
  int64_t num_records = 0;  // in them
};

// Why a record cannot be used; empty if it can.
using RecordFilter = std::function<std::string(const bench::Record&)>;

// Reads the records of the inputs: files, or directories of which every *.jsonl is taken, in the order of
// their names, but nothing that lies below. A file given twice is read once. A record has what all lines of
// its file say of it. What cannot be read or used is named in `problems` and left out; so is a second record
// of a rank.
//
// The ranks of one launch are the records with the same experiment, run_id, world_size, setting and variant.
// Launches of one set (`--repeats`: the fact launch_set) are one measurement; the first gives configuration,
// provenance and run id. All is held in memory. Throws InvalidInput if there is nothing at an input.
RecordSet ReadRecords(const std::vector<std::string>& inputs, const RecordFilter& why_unusable,
                      Problems* problems);

// One line about inputs without records: their names, and what lies in the first of them: "results: no
// records (*.jsonl) in it, but quick-1/, quick-2/ and a.jsonl.gz (decompress it first)".
std::string WhyNoRecords(const std::vector<std::string>& inputs);

}  // namespace gradsync::tools
