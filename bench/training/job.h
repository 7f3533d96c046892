#ifndef GRADSYNC_BENCH_TRAINING_JOB_H_
#define GRADSYNC_BENCH_TRAINING_JOB_H_

#include <functional>
#include <memory>
#include <optional>

#include "bench/launch/rank_main.h"
#include "bench/peers/pytorch.h"
#include "bench/training/case.h"
#include "bench/training/options.h"
#include "comm/world.h"
#include "model/device.h"

namespace gradsync::bench {

// One rank's part of a training benchmark: in each case all variants train one replica of the model, step by
// step, and are timed; then each one is compared with a single process that trains on the batches of all
// ranks; then its record is written.
//
// A step is forward, backward, synchronisation and optimizer. Outside of it, untimed: making the batch,
// putting gradients to their places, a barrier of all ranks. With `none` replicas drift apart, which costs no
// time and which no other strategy's check sees: checks start again from the initial weights.
//
// `make_task` is called once, before the group is joined: whoever waits for a rank that found fault with a
// file is just stopped. `peer_program`, needed if the task has variants of peers, takes their steps, in turn
// with the others, and they are checked against the same reference. The options must outlive the job. Run
// throws std::runtime_error, after all records have been written, if a variant that is not meant to drift was
// wrong.
std::unique_ptr<RankJob> MakeTrainingJob(
    const TrainingOptions& options, const comm::World& world, int argc, const char* const* argv,
    const std::function<TrainingTask(const model::DevicePtr& device)>& make_task,
    const std::optional<PeerProgram>& peer_program);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_JOB_H_
