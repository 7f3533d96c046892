#ifndef GRADSYNC_TOOLS_WHAT_IF_STRATEGIES_H_
#define GRADSYNC_TOOLS_WHAT_IF_STRATEGIES_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/predict/network.h"

namespace gradsync::tools {

// Where variants are to be predicted.
struct Place {
  int64_t world_size = 0;  // 0: as recorded
  int64_t ranks_per_host = 1;
  std::optional<Wire> link = {};  // between hosts; without it as calibrated
  Wire within{25e9, 3e-6};        // between ranks of a host
  Algorithm algorithm = Algorithm::kBest;
  std::optional<double> processor = {};  // what communication uses of a rank's processors
};

// One screen: the steps of variants, the best first, and which of them can be told apart. `inputs`: records
// of
// //bench:plan or //bench:ddp, with the floor's steps and the variants' plans. `calibrations`: of
// //bench:calibrate; may be empty if the place has a link. `variants`: names, or strategies; empty: all that
// can be predicted. `figure`, if not empty: a file for the map of which variant is fastest where. Throws
// InvalidInput where something is missing.
void PrintVariantsAnswer(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations,
                         const std::vector<std::string>& variants, const Place& place,
                         const std::string& figure, std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_WHAT_IF_STRATEGIES_H_
