#ifndef GRADSYNC_BENCH_DDP_MEMORY_H_
#define GRADSYNC_BENCH_DDP_MEMORY_H_

#include <optional>
#include <string>

#include "bench/ddp_options.h"
#include "comm/world.h"

namespace gradsync::bench {

// About how much memory the ranks of one host will use together, at the moment when they use most. Gradients,
// parameters, optimizer state and buffers are counted exactly; what a forward pass keeps is estimated from
// the model's shape.
double EstimateMemoryBytes(const DdpOptions& options, const comm::World& world);

// Nothing if the host has that much, else one line that says what is needed, what is available, and what
// would help.
std::optional<std::string> TooLargeForThisHost(const DdpOptions& options, const comm::World& world);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_DDP_MEMORY_H_
