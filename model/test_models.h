#pragma once

#include <cstdint>

#include "model/model.h"
#include "model/optimizer.h"
#include "model/random.h"
#include "model/resnet.h"
#include "model/transformer.h"

// Models that are small enough for tests of a whole step, and batches for these models.
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

// Returns a model for attention over several tiles. A hundred tokens do not fill the last tile.
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

inline ResNetConfig MicroResNet() {
  return {.name = "micro", .num_blocks = {1, 2, 1, 1}, .width = 8, .num_classes = 10};
}

// Returns images in f32, with all numbers in [0, 1).
inline Batch RandomImages(const DevicePtr& device, int64_t batch_size, int64_t height, int64_t width,
                          int64_t classes) {
  Batch batch{.inputs = Tensor::Empty(device, {batch_size, 3, height, width}, DType::kF32),
              .targets = Tensor::Empty(device, {batch_size, classes}, DType::kF32)};
  FillUniform(batch.inputs, 0, 1, /*seed=*/1, /*stream=*/0);
  FillUniform(batch.targets, 0, 1, /*seed=*/1, /*stream=*/1);
  return batch;
}

// Takes one training step. Returns the loss before the step; on CUDA the host does not wait for the loss.
inline Tensor Step(Model& model, Optimizer& optimizer, const Batch& batch) {
  for (Parameter* p : model.parameters()) p->ResetGrad();
  const Var loss = model.Loss(batch);
  Backward(loss, model.parameters());
  optimizer.Step();
  return loss.value();
}

inline float LossOf(Model& model, const Batch& batch) {
  return model.Loss(batch).value().ToVector<float>()[0];
}

}  // namespace gradsync::model
