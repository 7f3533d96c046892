#pragma once

#include <cstdint>

#include "model/tensor/random.h"
#include "model/transformer/transformer.h"

// For tests: defines transformers that are so small that tests can train them, and makes batches for them.
namespace gradsync::model {

inline TransformerConfig MicroTransformer() {
  return {.name = "micro",
          .d_model = 8,
          .d_ff = 12,
          .num_layers = 2,
          .num_heads = 2,
          .vocab_size = 11,
          .context_length = 6};
}

// Returns the sizes of a transformer whose longest sequence (128 positions) is so long that attention kernels
// process it in several tiles (blocks of positions).
inline TransformerConfig TiledTransformer(int64_t head_dim) {
  return {.name = "tiled",
          .d_model = 2 * head_dim,
          .d_ff = 200,
          .num_layers = 2,
          .num_heads = 2,
          .vocab_size = 301,
          .context_length = 128};
}

inline Batch RandomTokens(const DevicePtr& device, const TransformerConfig& config, int64_t batch_size,
                          int64_t seq, uint64_t seed) {
  Batch batch{.inputs = Tensor::Empty(device, {batch_size, seq}, DType::kI32),
              .targets = Tensor::Empty(device, {batch_size, seq}, DType::kI32)};
  FillUniformIntegers(batch.inputs, config.vocab_size, seed, 0);
  FillUniformIntegers(batch.targets, config.vocab_size, seed, 1);
  return batch;
}

}  // namespace gradsync::model
