#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

// The result of comparing two sets of results row by row.
struct ComparedDirs {
  struct Complaint {
    bool fails = false;  // true if the complaint makes the comparison fail
    std::string text{};
  };

  Summary summary;                      // summary with one table, "regression"
  int64_t num_matched = 0;              // number of rows that both sets have
  int64_t num_compared = 0;             // number of these rows that have enough steps
  std::vector<Complaint> complaints{};  // complaints about rows of `here`
};

// Compares two sets of results row by row: `here`, files or directories with *.jsonl files, with `there`, a
// file or directory. Rows match if their experiments, world sizes, settings and variants are equal; seed,
// placement, number of steps, commit and host may differ. Several runs of one row are combined as launches. A
// remark names differences of host, CPU, build or link. Throws InvalidInput if an input does not exist.
ComparedDirs CompareDirs(const std::vector<std::string>& here, const std::string& there);

}  // namespace gradsync::tools
