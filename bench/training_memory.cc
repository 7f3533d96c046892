#include "bench/training_memory.h"

#include <algorithm>
#include <cstdint>

#include "bench/host.h"
#include "bench/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

// Copies of the gradients that the strategies keep at the same time.
double BufferCopies(const TrainingOptions& options) {
  double all = 0;
  double largest = 0;
  for (const std::string& strategy : options.strategies) {
    const bool in_place = strategy == "none" || strategy == "naive" || strategy == "overlap";
    all += in_place ? 0 : 1;
    largest = std::max(largest, in_place ? 0.0 : 1.0);
  }
  return options.interleaved() ? all : largest;
}

}  // namespace

double EstimateMemoryBytes(const TrainingOptions& options, const TrainingSize& size,
                           const comm::World& world) {
  // Values, gradients, the optimizer's state, the strategies' buffers.
  const double copies = 2 + (options.optimizer == "adamw" ? 2 : 0) + BufferCopies(options);
  double elements = world.local_size * (copies * size.params + size.activations + size.batch);
  // To verify, rank 0 keeps initial values, the reference's values and gradients, and all ranks' batches.
  if (options.verify) elements += 3 * size.params + world.size * size.batch;
  constexpr double kPrograms = 64.0 * (1 << 20);  // code, libraries and communication buffers of one rank
  return elements * static_cast<double>(SizeOf(options.element_type())) + kPrograms * world.local_size;
}

std::optional<std::string> TooLargeForThisHost(const TrainingOptions& options, const TrainingSize& size,
                                               const comm::World& world) {
  const std::optional<int64_t> available_bytes = AvailableMemoryBytes();
  const double needed_bytes = EstimateMemoryBytes(options, size, world);
  if (!available_bytes || needed_bytes <= static_cast<double>(*available_bytes)) return std::nullopt;
  return Join("--model=", size.model, ": ", world.local_size, " ranks need about ",
              ApproximateBytes(needed_bytes), " on this host, ",
              ApproximateBytes(static_cast<double>(*available_bytes)),
              " are available; fewer --strategies, --order=blocks, --verify=false or a smaller --batch_size "
              "need less");
}

}  // namespace gradsync::bench
