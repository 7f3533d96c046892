#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

// The results of CompareDirs, which compares new step times with old ones.
struct ComparedDirs {
  struct Complaint {
    bool fails = false;  // true if the program exits with 3 because of the complaint
    std::string text{};
  };

  Summary summary;                      // has one table, "regression"
  int64_t num_matched = 0;              // number of rows that both `here` and `there` have
  int64_t num_compared = 0;             // number of these rows that have enough steps
  std::vector<Complaint> complaints{};  // about rows of `here`, and rows that it lacks
};

// Compares the step times in new records (the files or directories `here`) with those in old records (the
// file or directory `there`). A row (the steps of one strategy) of `here` is compared with the row of `there`
// that has the same benchmark, number of ranks, strategy, model, batch size, ...; the seed of a launch,
// number of steps, commit and host may differ. If several runs of `here` have the same row, the steps of the
// row in all these runs make one sample. If several runs of `there` have the same row, the steps of the row
// in all those runs also make one sample. If the new records (`here`) and the old ones (`there`) are from
// different hosts, CPUs, builds or network links, a note below the table of results names the difference.
// Throws InvalidInput if a path in `here`, or the path `there`, does not exist.
ComparedDirs CompareDirs(const std::vector<std::string>& here, const std::string& there);

}  // namespace gradsync::tools
