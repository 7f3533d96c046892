#ifndef GRADSYNC_BENCH_TRAINING_JOB_H_
#define GRADSYNC_BENCH_TRAINING_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/rank_main.h"
#include "bench/peers/pytorch.h"
#include "bench/records/record.h"
#include "bench/training/batch_source.h"
#include "bench/training/options.h"
#include "bench/training/record.h"
#include "comm/world.h"
#include "model/model.h"

namespace gradsync::bench {

// What one rank's batch looks like.
struct BatchShape {
  model::Shape inputs;
  model::DType inputs_dtype = model::DType::kF32;
  model::Shape targets;
  model::DType targets_dtype = model::DType::kF32;

  bool operator==(const BatchShape&) const = default;
};

// A strategy that is measured.
struct Contender {
  std::string strategy;
  int64_t bucket_bytes = 0;
  std::string peer = {};  // what a peer calls it that takes the steps; empty: gradsync's own
};

// Strategies that are measured together, step by step in turn, and compared with each other.
struct Contest {
  Place place;
  BatchShape batch;
  int64_t positions = 0;  // see Tolerance; of one rank's batch
  // What gradients may differ by, if that is more.
  double min_tolerance = 0;
  // A peer's, whose kernels round differently, if that is more.
  double peer_tolerance = 0;
  // Whether a peer's gradients can be told from wrong ones; if not, they are not checked.
  bool verify_peers = true;
  std::vector<Contender> contenders;
  // What its records say beside what those of every training do.
  Fields config;
  Fields facts;
};

// Each of PyTorch's ways that compares with one of the contest's strategies, once in each of the modes of
// PeerOptions, behind those, with buckets of the size of the first that it compares with.
void AddPeers(const std::vector<std::string>& modes, Contest& contest);

// What a training benchmark measures.
struct TrainingTask {
  std::string experiment;  // the records'
  std::unique_ptr<model::Model> model;
  std::unique_ptr<BatchSource> source;
  std::vector<Contest> contests;  // at least one; held in this order
  // Starts what takes the steps of contenders with a peer; needed if there are any.
  std::optional<PeerProgram> peer_program;
};

// One rank's part of a training benchmark: in each contest all strategies train one replica of the model,
// step by step, and are timed; then each one is compared with a single process that trains on the batches of
// all ranks; then its record is written.
//
// A step is forward, backward, synchronisation and optimizer. Outside of it, untimed: making the batch,
// putting gradients to their places, a barrier of all ranks. With `none` replicas drift apart, which costs no
// time and which no other strategy's check sees: checks start again from the initial weights.
//
// `make_task` is called once, before the group is joined: whoever waits for a rank that found fault with a
// file is just stopped. Contenders with a peer take their steps in another program, in turn with the others,
// and are checked against the same reference. The options must outlive the job. Run throws
// std::runtime_error, after all records have been written, if a strategy other than `none` was wrong.
std::unique_ptr<RankJob> MakeTrainingJob(
    const TrainingOptions& options, const comm::World& world, int argc, const char* const* argv,
    const std::function<TrainingTask(const model::DevicePtr& device)>& make_task);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_JOB_H_
