#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

// Two sets of results, compared row by row.
struct ComparedDirs {
  struct Complaint {
    bool fails = false;  // else it is said, and the comparison passes
    std::string text{};
  };

  Summary summary;                      // with one table, "regression"
  int64_t num_matched = 0;              // rows that both have
  int64_t num_compared = 0;             // of these, the ones with steps enough
  std::vector<Complaint> complaints{};  // about `here`
};

// Compares two sets of results row by row: `here`, files or directories with *.jsonl in them, with `there`,
// one of either. A row is an experiment, a world size, a setting and a variant; what a run decided for itself
// (seed, placement, how many steps) may differ, and so may commit and host. The steps of several runs of one
// row are put together, as launches. A remark says where host, processor, build or link differ. Throws
// InvalidInput if an input does not exist.
ComparedDirs CompareDirs(const std::vector<std::string>& here, const std::string& there);

}  // namespace gradsync::tools
