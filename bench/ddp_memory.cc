#include "bench/ddp_memory.h"

#include <algorithm>
#include <cstdint>

#include "bench/host.h"
#include "bench/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

// Copies of the gradients that the strategies keep at the same time.
double BufferCopies(const DdpOptions& options) {
  double all = 0;
  double largest = 0;
  for (const std::string& strategy : options.strategies) {
    const bool in_place = strategy == "none" || strategy == "naive" || strategy == "overlap";
    all += in_place ? 0 : 1;
    largest = std::max(largest, in_place ? 0.0 : 1.0);
  }
  return options.interleaved() ? all : largest;
}

// Elements that one sequence position leaves behind for backward (model/functions.h lists them), at the
// moment of the loss, when logits and their gradient are there as well.
double ActivationsPerPosition(const model::TransformerConfig& config) {
  const double d_model = static_cast<double>(config.d_model);
  const double d_ff = static_cast<double>(config.d_ff);
  const double per_layer = 7 * d_model + 3 * d_ff;
  return static_cast<double>(config.num_layers) * per_layer + 2 * static_cast<double>(config.vocab_size) +
         4 * d_ff;
}

}  // namespace

double EstimateMemoryBytes(const DdpOptions& options, const comm::World& world) {
  const model::TransformerConfig config = options.model_config();
  const double element_bytes = static_cast<double>(SizeOf(options.element_type()));
  const double params = static_cast<double>(NumParameters(config));
  double positions = 0;
  for (const Cell& cell : Cells(options)) {
    positions = std::max(positions, static_cast<double>(cell.batch_size) * static_cast<double>(cell.seq_len));
  }
  const double activations = positions * ActivationsPerPosition(config);

  // Values, gradients, the optimizer's state, the strategies' buffers.
  const double copies = 2 + (options.optimizer == "adamw" ? 2 : 0) + BufferCopies(options);
  double elements = static_cast<double>(world.local_size) * (copies * params + activations);
  // To verify, rank 0 keeps initial values and the reference's values and gradients, and computes the whole
  // batch.
  if (options.verify) elements += 3 * params + (world.size - 1) * activations;
  constexpr double kPrograms = 64.0 * (1 << 20);  // code, libraries and communication buffers of one rank
  return elements * element_bytes + kPrograms * world.local_size;
}

std::optional<std::string> TooLargeForThisHost(const DdpOptions& options, const comm::World& world) {
  const std::optional<int64_t> available_bytes = AvailableMemoryBytes();
  const double needed_bytes = EstimateMemoryBytes(options, world);
  if (!available_bytes || needed_bytes <= static_cast<double>(*available_bytes)) return std::nullopt;
  return Join("--model=", options.model, ": ", world.local_size, " ranks need about ",
              ApproximateBytes(needed_bytes), " on this host, ",
              ApproximateBytes(static_cast<double>(*available_bytes)),
              " are available; fewer --strategies, --order=blocks, --verify=false or a smaller --batch_size "
              "need less");
}

}  // namespace gradsync::bench
