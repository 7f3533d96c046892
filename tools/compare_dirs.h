#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

// What CompareDirs found.
struct ComparedDirs {
  struct Complaint {
    bool fails = false;  // true if the complaint makes the comparison fail
    std::string text{};
  };

  Summary summary;                      // has one table, "regression"
  int64_t num_matched = 0;              // number of rows that both `here` and `there` have
  int64_t num_compared = 0;             // number of these rows that have enough steps
  std::vector<Complaint> complaints{};  // about rows of `here`
};

// Compares new results, of the files or directories `here`, with old ones, of the file or directory `there`.
// A row of `here` is compared with the row of `there` that has the same benchmark, number of ranks, strategy,
// model, batch size, ...; seed, number of steps, commit and host may differ. If `here` or `there` has several
// runs of a row, their steps are combined. If hosts, CPUs, builds or links differ between `here` and `there`,
// a note below the table names the difference. Throws InvalidInput if an input does not exist.
ComparedDirs CompareDirs(const std::vector<std::string>& here, const std::string& there);

}  // namespace gradsync::tools
