#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "bench/records/step_times.h"
#include "bench/timing/cpu_clock.h"
#include "bench/timing/phase_timer.h"
#include "bench/timing/range_sink.h"
#include "bench/timing/step_wait.h"
#include "bench/training/variant.h"
#include "comm/queue/recording_process_group.h"
#include "ddp/buckets/buffer_broadcast.h"
#include "ddp/factory.h"
#include "ddp/interface/strategy.h"
#include "model/model.h"
#include "model/optimizer.h"

namespace gradsync::bench {

// The result of one step on one rank. Most fields are unknown for peers.
struct StepResult {
  StepTimes times;
  std::vector<StepMarks> marks = {};  // marks of each step of the turn
  // The waits of the last step in the variant's group, if the step is traced, on the CPU; else empty.
  std::vector<StepWait> waits = {};
  // Time when this rank left the barrier before the step, on the host's clock.
  std::optional<int64_t> begin_ns = {};
  // Time in ns during which at least one collective of the step was in flight. The time is counted from the
  // end of forward, or, if the strategy may communicate before the last backward pass, from the beginning of
  // the step.
  std::optional<int64_t> comm_busy_ns = {};
  std::optional<CpuTimes> cpu = {};
  std::optional<int64_t> allocations = {};  // number of allocations from the device's memory source
  // Bytes in use on the device when forward of the last step begins, when its update begins, and when the
  // update is done.
  int64_t built_bytes = 0, before_update_bytes = 0, after_update_bytes = 0;
};

// Returns the samples of a step. `position` is the index of the step in the launch's order.
Record MakeSamples(const StepResult& step, int64_t position);

struct TrainerOptions {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  bool decay_vectors = true;  // see model::AdamW::Options
  // Receives the phases of each step, and the collectives of strategies, unless it is null. The sink must
  // outlive the trainer.
  RangeSink* ranges = nullptr;
  bool check_gradients = false;  // strategies search every gradient of this rank for NaN and infinity
  // True if strategies are made one after the other, with Restart before each strategy except the first
  // (StrategyOptions).
  bool is_alone = false;
  bool restarts = true;  // if false, Restart is called only before the first strategy
};

// How a strategy trains in one turn, independent of the batch.
struct Turn {
  ddp::Strategy& strategy;
  comm::RecordingProcessGroup& group;  // the group of the strategy
  int64_t num_steps = 1;               // number of consecutive timed steps
  int64_t lead_in_steps = 0;           // number of untimed steps after the barrier, before the timed steps
  // A step divides its batch into this number of parts with equal numbers of rows, and computes one part
  // after the other. The gradient is the mean of the parts' gradients. Unless needs_every_pass(), the
  // strategy is called only in the last part, so communication begins in the backward pass of the last part.
  // All work before this pass counts as forward.
  int64_t accumulation_steps = 1;
  // If the Euclidean norm of all gradients together is larger than clip_norm, all gradients are scaled to
  // this norm (as by PyTorch's clip_grad_norm_, without the 1e-6 that it adds to the norm). If a strategy
  // drifts, each rank clips its own gradients.
  double clip_norm = std::numeric_limits<double>::infinity();
  double learning_rate = 0;  // learning rate of these steps; if 0, the learning rate of TrainerOptions
};

// Returns the value of a tensor of one element.
double ToDouble(const model::Tensor& scalar);

// Owns one rank's replica of the model. All strategies train this replica in turn, so all of them compute in
// the same memory.
class Trainer {
 public:
  // All ranks begin with rank 0's initial weights. `group` is for barriers, initial weights and initial
  // buffers; strategies may use other groups. All groups must outlive the trainer.
  Trainer(std::unique_ptr<model::Model> model, const TrainerOptions& options, const model::DevicePtr& device,
          comm::RecordingProcessGroup& group, CpuClock cpu_clock);

  const model::DevicePtr& device() const { return device_; }
  comm::RecordingProcessGroup& group() { return group_; }
  model::Model& model() { return *model_; }
  model::Optimizer& optimizer() { return *optimizer_; }
  std::span<model::Parameter* const> params() const { return model_->parameters(); }
  int64_t num_elements() const;

  // Removes all gradients. Later gradients, and values, are in the trainer's memory, and not in the memory of
  // a strategy. Allocates this memory if necessary.
  void BeginGradients();
  // Removes all gradients, and releases a strategy's storage. Does not allocate memory for gradients.
  void ResetGradients();

  RangeSink* ranges() const { return options_.ranges; }

  // Allocates the gradients and the optimizer's state that a strategy with these traits does not have itself.
  void Provide(const ddp::Traits& traits);
  // Makes a strategy, which must not outlive the trainer. Throws InvalidInput for an unknown name or a wrong
  // option.
  std::unique_ptr<ddp::Strategy> NewStrategy(const std::string& name, const ddp::StrategyOptions& options,
                                             comm::RecordingProcessGroup& group);

  // Sets every parameter and buffer to rank 0's initial value, and resets the optimizer. All ranks must call
  // this.
  void Restart();

  // Takes one training step, timed after a barrier of all ranks, or all steps of a turn, without barriers
  // between them; then the times of the result are means. If the model has buffers, forward of the last step
  // begins with a broadcast of rank 0's buffers. Afterwards, the parameters have the step's gradients, if the
  // strategy keeps them; the log of the turn's group has the step's collectives. Reports operations and the
  // broadcast of buffers to `tracer`, unless it is null.
  StepResult Step(const Turn& turn, const model::Batch& batch, model::Tracer* tracer = nullptr);
  // Takes a step for a check. Afterwards the parameters have the whole gradients of the last step, in memory
  // that does not belong to the strategy.
  void StepWithWholeGradients(const Turn& turn, const model::Batch& batch);
  // For tests: sets the timer of steps, and the clock of the strategy's own work.
  void SetClock(std::unique_ptr<PhaseTimer> timer, std::function<int64_t()> now);
  // Returns the current phase of Step, for error messages: "start", "forward", "backward", "synchronisation"
  // or "optimizer".
  std::string_view phase() const { return phase_; }

  // Returns the loss of this rank's last batch; after Step, of the last step.
  double loss() const;

  // Returns the floating-point operations of forward and backward of a batch (FlopCounter). Runs a forward
  // pass.
  double CountFlops(const model::Batch& batch, int64_t accumulation_steps = 1);

  // Returns the bytes of memory that all strategies share and that a strategy with these traits needs:
  // buffers, gradients, the optimizer's state, and values. Values do not count if the strategy has its own
  // memory for values.
  int64_t SharedBytes(const ddp::Traits& traits) const;

  // Takes only the optimizer's step, with the current gradients.
  void StepOptimizer(double clip_norm = std::numeric_limits<double>::infinity());

  // Runs forward and backward in this process alone, without communication. The gradient is the mean of the
  // gradients of the ranks' batches. The batches are computed one after the other, because a batch norm
  // depends on the whole batch. With a strategy's `loss_scale`, the gradients of a batch are bitwise equal to
  // the gradients that its rank computes.
  void ComputeGradientsAlone(std::span<const model::Batch> batches, int64_t accumulation_steps = 1,
                             double loss_scale = 1);

 private:
  // Records the mark at which the previous phase ends and this phase begins.
  void Enter(std::string_view phase, Mark mark);
  // Moves values back from strategies that keep values in their own memory.
  void TakeValuesBack();
  void AllocateGradients();
  // Runs forward and backward of all parts of a batch except the last part, and forward of the last part,
  // whose loss it returns. Calls a strategy with needs_every_pass() in each of these passes.
  model::Var Forward(const model::Batch& batch, int64_t accumulation_steps, double loss_scale,
                     model::Tracer* tracer = nullptr, ddp::Strategy* strategy = nullptr);
  // Takes a step from BeginStep to Update. If `keep` is not null, copies the whole gradients to `keep` before
  // the update.
  StepTimes TakeStep(const Turn& turn, bool communicates, const model::Batch& batch, model::Tracer* tracer,
                     StepResult& result, std::vector<model::Tensor>* keep);

  const TrainerOptions options_;
  const model::DevicePtr device_;
  comm::RecordingProcessGroup& group_;
  const CpuClock cpu_clock_;
  std::vector<model::Tensor> losses_;  // losses of the last batch's parts
  // The groups that strategies use if there are ranges: each wraps the group that is its key.
  std::map<comm::RecordingProcessGroup*, std::unique_ptr<comm::ProcessGroup>> annotated_groups_;
  std::string_view phase_ = "start";
  std::unique_ptr<model::Model> model_;
  // The memory of gradients for strategies without own memory for gradients. Empty if all strategies have
  // their own memory.
  std::vector<model::Tensor> default_grads_;
  std::vector<model::Tensor> initial_values_;   // rank 0 only, on the CPU
  std::vector<model::Tensor> initial_buffers_;  // rank 0 only, on the CPU
  std::unique_ptr<ddp::BufferBroadcast> buffer_broadcast_;
  std::unique_ptr<model::Optimizer> optimizer_;
  std::unique_ptr<PhaseTimer> timer_;
  std::function<int64_t()> now_ = comm::Now;
};

}  // namespace gradsync::bench
