#include "bench/training/ddp_memory.h"

#include <algorithm>

#include "bench/peers/pytorch.h"

namespace gradsync::bench {
namespace {

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

TrainingSize SizeOfTraining(const DdpOptions& options) {
  const model::TransformerConfig config = options.model_config();
  double positions = 0;
  for (const Cell& cell : Cells(options)) {
    positions = std::max(positions, static_cast<double>(cell.batch_size) * static_cast<double>(cell.seq_len));
  }
  TrainingSize size;
  size.model = options.model;
  size.params = static_cast<double>(NumParameters(config));
  size.activations = positions * ActivationsPerPosition(config);
  size.batch = 2 * positions;
  if (options.peers.wanted()) size.peers = PeerStrategies(options.strategies, options.peers.modes);
  return size;
}

}  // namespace gradsync::bench
