#ifndef GRADSYNC_TOOLS_IMPORT_PROTOCOL_H_
#define GRADSYNC_TOOLS_IMPORT_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

namespace gradsync::tools {

// How the published experiments were measured, as far as it was read in their programs. One row for each kind
// of table; a published table of another protocol needs the flags of the program, or a row here.
struct Protocol {
  std::string_view experiment;
  std::string_view model;
  std::string_view backend;  // empty: the table says
  int64_t world_size;
  int64_t batch_size;  // 0: the table says, or there is none
  int64_t seq_len;
  int64_t warmup_steps;
  int64_t steps;  // behind each figure; 0: not known
  std::string_view optimizer;
  std::string_view clock;
  std::string_view ranks_behind_times;
  std::string_view step_covers;
  std::string_view sync_covers;
  bool phases_synchronised;  // whether backward had ended when the time of synchronisation began
};

inline constexpr Protocol kAllReduce = {"all_reduce",     "",  "", 4, 0, 0, 0, 0, "", "host", "all, mean", "",
                                        "one all-reduce", true};
// One rank only: found in the program's arguments, and borne out by the rate that its times would mean.
inline constexpr Protocol kDdp = {"ddp",
                                  "xl",
                                  "",
                                  1,
                                  4,
                                  256,
                                  5,
                                  20,
                                  "none",
                                  "host, timeit.default_timer",
                                  "rank 0",
                                  "forward, backward, synchronisation",
                                  "from a device synchronisation after backward",
                                  true};
inline constexpr Protocol kGrid = {"ddp",
                                   "xl",
                                   "nccl",
                                   2,
                                   0,
                                   0,
                                   10,
                                   10,
                                   "adamw",
                                   "host, perf_counter",
                                   "all, maximum",
                                   "scatter, forward, backward, synchronisation, optimizer",
                                   "the tail of backward too; flat: without flattening",
                                   false};
inline constexpr Protocol kCompare = {"compare",
                                      "resnet50",
                                      "gloo",
                                      2,
                                      32,
                                      0,
                                      20,
                                      20,
                                      "sgd",
                                      "CUDA events",
                                      "rank 0",
                                      "forward or backward, without input and optimizer",
                                      "in backward",
                                      true};

// What the figures themselves do not say, and the user may.
struct ImportOptions {
  std::string run_id;                   // "published-000"
  std::string source;                   // the file's name, for the record
  std::string strategy;                 // of a grid; empty: what the text calls it
  std::vector<std::string> strategies;  // of the rows of a DDP table without such a column, in turn
  std::optional<int64_t> world_size;    // of all; empty: as the protocol has it
};

// A record without samples, with all that its protocol claims in config and facts.
bench::Record NewRecord(const Protocol& protocol, const ImportOptions& options);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_IMPORT_PROTOCOL_H_
