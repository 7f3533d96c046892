#pragma once

#include <cstdint>

#include "model/tensor/random.h"
#include "model/vision/resnet.h"

// For tests: defines a ResNet that is so small that tests can train it, and makes batches for it.
namespace gradsync::model {

inline ResNetConfig MicroResNet() {
  return {.name = "micro", .num_blocks = {1, 2, 1, 1}, .width = 8, .num_classes = 10};
}

// Returns random images and targets in f32, with all numbers in [0, 1).
inline Batch RandomImages(const DevicePtr& device, int64_t batch_size, int64_t height, int64_t width,
                          int64_t classes) {
  Batch batch{.inputs = Tensor::Empty(device, {batch_size, 3, height, width}, DType::kF32),
              .targets = Tensor::Empty(device, {batch_size, classes}, DType::kF32)};
  FillUniform(batch.inputs, 0, 1, /*seed=*/1, /*stream=*/0);
  FillUniform(batch.targets, 0, 1, /*seed=*/1, /*stream=*/1);
  return batch;
}

}  // namespace gradsync::model
