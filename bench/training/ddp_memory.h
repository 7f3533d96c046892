#ifndef GRADSYNC_BENCH_TRAINING_DDP_MEMORY_H_
#define GRADSYNC_BENCH_TRAINING_DDP_MEMORY_H_

#include "bench/training/ddp_options.h"
#include "bench/training/memory.h"

namespace gradsync::bench {

// Of the largest cell. What a forward pass keeps is estimated from the model's shape.
TrainingSize SizeOfTraining(const DdpOptions& options);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_DDP_MEMORY_H_
