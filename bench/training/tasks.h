#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "bench/timing/range_sink.h"
#include "bench/training/batches.h"
#include "bench/training/plan.h"
#include "comm/rendezvous/world.h"
#include "model/model.h"
#include "model/tensor/device.h"

namespace gradsync::bench {

// A Setting has what is equal for all strategies that are compared with each other, such as the shape of
// their batches.
struct Setting {
  std::string name;                // name for users: "batch 2, sequence 128"
  BatchShape batch;                // the batch of one rank in a step
  int64_t accumulation_steps = 1;  // equal parts of the batch, one for each pass of forward and backward
  int64_t positions = 0;           // number of tokens or images of one rank's batch
  // Fields of the records that the benchmark writes about the Setting: the model's name and sizes, the batch
  // size, and the length of sequences or the size of images. The fields also have accumulation_steps if it is
  // larger than 1, and say whether batches and weights are random or come from files.
  ConfigFields config;
  FactFields facts;
};

// What a rank trains: the model, the source of its batches, and the settings (such as batch sizes) in which
// training is measured.
struct TrainingTask {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Setting> settings;  // at least one; measured in this order
  // If `ranges` is not null, the benchmark tells this RangeSink, for profilers, when each Stepper::Step of a
  // gradsync strategy begins and ends. The benchmark also tells the RangeSink when phases of steps,
  // operations of backward, and the strategies' collectives begin and end. With --nvtx, the benchmark ignores
  // `ranges` and uses the sink that MakeNvtxSink returns instead.
  std::unique_ptr<RangeSink> ranges = {};
};

// Makes one rank's TrainingTask: the model, the source of batches, and a Setting for each combination of
// batch size, number of accumulation steps and, for a transformer, sequence length. Random generators with
// the seed `seed` draw the batches and the random initial weights. If --weights names a file, only rank 0
// reads the model's weights from it, and Trainer::Restart sends them to the other ranks. Rank 0 throws
// InvalidInput if the file of --weights cannot be opened, is not a valid safetensors file, or does not fit
// the model. Rank 0 throws std::runtime_error if reading the opened file fails. Every rank throws
// InvalidInput if CorpusTokens refuses the file of --corpus.
TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench
