#ifndef GRADSYNC_BENCH_TRAINER_H_
#define GRADSYNC_BENCH_TRAINER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/ddp_options.h"
#include "bench/op_recorder.h"
#include "bench/phase_timer.h"
#include "comm/recording_process_group.h"
#include "ddp/strategy.h"
#include "model/model.h"
#include "model/optimizer.h"

namespace gradsync::bench {

// What one step was like on one rank.
struct StepResult {
  StepMarks marks;
  int64_t comm_busy_ns = 0;  // how long at least one collective of the step was in flight
};

// One rank's replica of the model, which all strategies train in turn: they then compute on the same memory.
class Trainer {
 public:
  // Draws or loads the initial weights; only rank 0 reads the file. Throws InvalidInput if it does not fit.
  Trainer(const DdpOptions& options, const model::DevicePtr& device, int rank);

  model::Model& model() { return *model_; }
  std::span<model::Parameter* const> params() const { return model_->parameters(); }
  int64_t num_elements() const;

  // All ranks: every parameter becomes rank 0's initial one, and the optimizer forgets.
  void Restart(comm::ProcessGroup& group);

  // One training step, timed between barriers of all ranks. Afterwards the parameters hold its gradients, the
  // group's log holds its collectives, and `recorder`, if there is one, the operations of its backward pass.
  StepResult Step(ddp::Strategy& strategy, const model::Batch& batch, comm::RecordingProcessGroup& group,
                  OpRecorder* recorder);

  // Forward and backward with the strategy, without the optimizer. Returns this rank's loss.
  double Gradients(ddp::Strategy& strategy, const model::Batch& batch);

  // The same step without communication, by this process alone.
  void StepAlone(const model::Batch& batch);

 private:
  void BeginGradients();

  const model::DevicePtr device_;
  std::unique_ptr<model::Model> model_;
  // Where gradients are unless a strategy has places of its own for them.
  std::vector<model::Tensor> default_grads_;
  std::vector<model::Tensor> initial_values_;  // rank 0 only
  std::unique_ptr<model::Optimizer> optimizer_;
  std::unique_ptr<PhaseTimer> timer_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINER_H_
