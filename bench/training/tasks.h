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

// What all strategies that are compared with each other have in common: the shape of the batches, and the
// configuration of their records.
struct Setting {
  std::string name;                // name for users: "batch 2, sequence 128"
  BatchShape batch;                // the batch of one rank in a step
  int64_t accumulation_steps = 1;  // equal parts of the batch, one for each pass of forward and backward
  int64_t positions = 0;           // number of tokens or images of one rank's batch
  // Batch size, sequence length and sizes of the model, for records.
  ConfigFields config;
  FactFields facts;
};

// What a rank trains, and on which data.
struct TrainingTask {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Setting> settings;  // at least one; measured in this order
  // Unless it is null, this sink is told when the phases, operations and collectives of each step begin and
  // end. With --nvtx, the sink that MakeNvtxSink returns is used in its place.
  std::unique_ptr<RangeSink> ranges = {};
};

// Makes the model, the source of batches, and a Setting for each combination of batch size, number of
// accumulation steps and sequence length. `seed` decides the initial weights and the batches. If --weights
// names a file, only rank 0 reads it. Throws InvalidInput if the file does not fit the model.
TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench
