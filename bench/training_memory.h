#ifndef GRADSYNC_BENCH_TRAINING_MEMORY_H_
#define GRADSYNC_BENCH_TRAINING_MEMORY_H_

#include <optional>
#include <string>

#include "bench/training_options.h"
#include "comm/world.h"

namespace gradsync::bench {

// What a training needs memory for, in elements.
struct TrainingSize {
  std::string model;       // its name
  double params = 0;       // of the model
  double activations = 0;  // of one rank's batch, at the moment of the loss
  double batch = 0;        // of one rank's batch itself
};

// About how much memory the ranks of one host will use together, at the moment when they use most. Gradients,
// parameters, optimizer state and buffers are counted exactly.
double EstimateMemoryBytes(const TrainingOptions& options, const TrainingSize& size,
                           const comm::World& world);

// Nothing if the host has that much, else one line that says what is needed, what is available, and what
// would help.
std::optional<std::string> TooLargeForThisHost(const TrainingOptions& options, const TrainingSize& size,
                                               const comm::World& world);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_MEMORY_H_
