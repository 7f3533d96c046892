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
#include "model/device.h"
#include "model/model.h"

namespace gradsync::bench {

// One model trained on batches of one shape, by variants that take turns and are compared with each other.
struct Cell {
  std::string name;                // for people: "batch 2, sequence 128"
  BatchShape batch;                // of all parts of a step, on one rank
  int64_t accumulation_steps = 1;  // parts
  int64_t positions = 0;           // see PeerTolerance; of one rank's batch
  // What its records say beside what those of every training do.
  ConfigFields config;
  FactFields facts;
};

// What a rank trains.
struct TrainingTask {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Cell> cells;                 // at least one; measured in this order
  std::unique_ptr<RangeSink> ranges = {};  // hears what each step does, if there is one and no --nvtx
};

// The model, its batches and a cell for each of their shapes. `seed`: of weights and batches. Only rank 0
// reads the weights' file. Throws InvalidInput if it does not fit the model.
TrainingTask MakeTask(const TrainingPlan& plan, uint64_t seed, const comm::World& world,
                      const model::DevicePtr& device);

}  // namespace gradsync::bench
