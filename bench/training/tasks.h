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
  // For records: the model's name and sizes, the batch size, the length of sequences or the size of images,
  // and whether batches and weights are random or come from files.
  ConfigFields config;
  FactFields facts;
};

// What a rank trains, and on which data.
struct TrainingTask {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Setting> settings;  // at least one; measured in this order
  // Unless it is null, this sink is told, for a profiler, when the steps of gradsync's strategies, their
  // phases, operations and collectives begin and end. With --nvtx, the benchmark uses the sink of
  // MakeNvtxSink in its place.
  std::unique_ptr<RangeSink> ranges = {};
};

// Makes the model, the source of batches, and a Setting for each combination of batch size, number of
// accumulation steps and, for a transformer, sequence length. `seed` decides the batches and the random
// initial weights. If --weights names a file, rank 0 alone takes the model's weights from it
// (Trainer::Restart sends them to the other ranks). Throws InvalidInput if this file does not fit the model,
// or if the corpus cannot be used.
TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench
