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

// A setting is the training of one model on batches of one shape, by variants that take turns and are
// compared with each other.
struct Setting {
  std::string name;                // name for users: "batch 2, sequence 128"
  BatchShape batch;                // the batch of one rank in a step, with all its parts
  int64_t accumulation_steps = 1;  // number of parts of the batch
  int64_t positions = 0;           // number of positions of one rank's batch (PeerTolerance)
  // The configuration of the setting's records, in addition to the configuration of every training.
  ConfigFields config;
  FactFields facts;
};

// The training that a rank runs.
struct TrainingTask {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Setting> settings;  // at least one setting; settings are measured in this order
  // Receives the ranges of each step, unless it is null or --nvtx is set.
  std::unique_ptr<RangeSink> ranges = {};
};

// Makes the model, its batches, and a setting for each shape of batches. `seed` determines weights and
// batches. Only rank 0 reads the file of weights. Throws InvalidInput if the file does not fit the model.
TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench
