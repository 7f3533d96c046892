#ifndef GRADSYNC_TOOLS_TABLES_ALL_REDUCE_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_ALL_REDUCE_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/records/validity.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/findings.h"

// Sentences that say what all-reduce times show, and no more than they carry.
namespace gradsync::tools {

// The times of one backend at one size.
struct Transfer {
  std::string backend;
  double size_bytes = 0;
  int64_t world_size = 1;
  Sample times{};  // of each iteration, on its slowest rank
  std::optional<int64_t> wrong_elements{};
  Flags flags{};
  std::string collective = "all_reduce";
  RunKey run{};
};

// Wrong elements, if there are any; or that all were looked at and none was wrong. Empty without transfers,
// and where not all of them were looked at.
std::vector<std::string> CorrectnessSentences(const std::vector<Transfer>& transfers);

// Which backend is fastest at which sizes, as Contest has it, unpaired: sizes are measured one after
// the other. Empty where only one was measured.
std::vector<std::string> FastestBackendSentences(const std::vector<Transfer>& transfers,
                                                 const BootstrapOptions& bootstrap = {});

// For each backend first its highest bus bandwidth and the size from which on all are within 10 % of it, then
// the sizes that are shown to be within, or below. A size is within, or is not, if the interval of its
// bandwidth's ratio to the highest lies on that side of 0.9; the intervals of all sizes and backends hold at
// once. Of sizes of which neither is shown, it says so. With several runs each is named; of too many none is.
// Empty where nothing can be said: a single rank, wrong elements, fewer than 10 iterations, one size.
std::vector<std::string> SaturationSentences(const std::vector<Transfer>& transfers,
                                             const BootstrapOptions& bootstrap = {});

// All of these; what is wrong comes first. None of too many transfers.
std::vector<std::string> TransferSentences(const std::vector<Transfer>& transfers,
                                           const BootstrapOptions& bootstrap);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_ALL_REDUCE_FINDINGS_H_
