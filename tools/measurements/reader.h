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

// The reader of record files leaves out lines of more than kMaxLineBytes bytes, so that a large file without
// newlines does not fill the memory.
inline constexpr size_t kMaxLineBytes = size_t{16} << 20;

// The lines, files and directories that ReadRecords could not use or read, with reasons, for messages to the
// user.
class Problems {
 public:
  void AddLine(const std::string& path, int64_t line, std::string reason) {
    reasons_.emplace(std::pair(path, line), std::move(reason));
  }
  // Adds to the problems a file that is empty or could not be read completely, or a directory that could not
  // be read.
  void AddFile(const std::string& path, std::string reason) { AddLine(path, 0, std::move(reason)); }

  int64_t count() const { return static_cast<int64_t>(reasons_.size()); }

  // Prints "path:line: reason" about each line, and "path: reason" about each file or directory, that
  // ReadRecords could not use, ordered by path and line. Consecutive lines with the same reason are printed
  // as "path:3-7: reason (5 lines)".
  void Print(std::ostream& out) const;

 private:
  std::multimap<std::pair<std::string, int64_t>, std::string> reasons_;  // reasons by path and line
};

// The measurements of all strategies in one run (with --repeats, in all its launches) that have the same
// model, batch size, sequence length and so on. A group is never empty. With --choose, the measurements of
// the first launch are one group, and those of all later launches another.
using Group = std::vector<Measurement>;

struct RecordSet {
  // In the vector `groups`, the groups of one run of a benchmark follow each other. Runs, the groups of a
  // run, and the measurements of a group are in the order in which the first record of each was read.
  std::vector<Group> groups;
  int64_t num_records = 0;  // number of records that were used
};

using RecordFilter = std::function<std::string(const bench::Record&)>;

// Reads the benchmark records in `inputs`, which are files or directories. Of a directory, reads the *.jsonl
// and *.jsonl.gz files in the order of their names, and no subdirectories. If a directory in `inputs` has
// x.jsonl and x.jsonl.gz, reads only x.jsonl of the two. Files may be compressed by gzip, whatever their
// names. A file is read only once, even if several elements of `inputs` name or contain it. Lines, files and
// records that cannot be used are left out and listed in `problems`. A record for which `why_unusable`
// returns a reason (a text that is not empty) is also left out and listed.
//
// The records of all ranks of a run about the same configuration are combined into one measurement. With
// `--repeats`, the measurement has the records of all launches of the run. With --choose, the records of the
// first launch make one measurement, and those of all later launches another. Throws InvalidInput if a file
// or directory in `inputs` does not exist.
RecordSet ReadRecords(const std::vector<std::string>& inputs, const RecordFilter& why_unusable,
                      Problems* problems);

// Returns an error message for the case that no record in `inputs` can be used. `inputs` must not be empty.
// The message names only the first input, inputs[0], for example "results": "results: no record in it that
// could be used". If inputs[0] is a directory without *.jsonl and *.jsonl.gz files, the message names up to
// five files and directories in it: "results: no records (*.jsonl) in it, but a.txt, b.txt".
std::string WhyNoRecords(const std::vector<std::string>& inputs);

}  // namespace gradsync::tools
