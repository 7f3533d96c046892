#ifndef GRADSYNC_BENCH_TRAINING_IMAGE_SOURCE_H_
#define GRADSYNC_BENCH_TRAINING_IMAGE_SOURCE_H_

#include <cstdint>
#include <memory>

#include "bench/training/batch_source.h"

namespace gradsync::bench {

// Images and targets, f32 or f64 of any shape, drawn uniformly from [0, 1), as in the published experiment.
std::unique_ptr<BatchSource> UniformImages(uint64_t seed);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_IMAGE_SOURCE_H_
