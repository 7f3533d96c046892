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

// What one rank measured in a turn of one or several timed training steps. `times`, `comm_busy_ns` and `cpu`
// are means over these steps. For PyTorch's strategies, only `times` and `begin_ns` are set.
struct StepResult {
  StepTimes times;
  std::vector<StepMarks> marks = {};  // when each timed step reached its marks
  // The begin and end of each wait for a collective in the last step. The list is empty if a GPU computes, or
  // if the caller of Trainer::Step gave no tracer.
  std::vector<StepWait> waits = {};
  // The time, in ns on the host's steady clock, when this rank began the first timed step, after a barrier
  // and the untimed steps.
  std::optional<int64_t> begin_ns = {};
  // The mean time per timed step, in ns, with a collective in flight between the end of forward and the
  // step's end. Time with several collectives counts once. For a strategy that may communicate before the
  // last backward pass, this time is measured from the beginning of the step, and not from the end of
  // forward.
  std::optional<int64_t> comm_busy_ns = {};
  std::optional<CpuTimes> cpu = {};
  std::optional<int64_t> allocations = {};  // from the device's memory source, also in untimed steps
  // Bytes of tensors in use on the device in the last timed step: when Strategy::BeginStep has returned
  // (built_bytes), directly before the optimizer's update, and directly after it.
  int64_t built_bytes = 0, before_update_bytes = 0, after_update_bytes = 0;
};

// `step` has the measurements of one turn (one or more training steps of one strategy). Returns a benchmark
// record whose samples are the values in the members times, begin_ns, comm_busy_ns and cpu of `step`. A value
// that is nullopt in `step` has no sample. The record also has the sample `position`: how many turns, of all
// strategies, this rank measured before this turn.
Record MakeSamples(const StepResult& step, int64_t position);

struct TrainerOptions {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  bool decay_vectors = true;  // if false, AdamW applies no weight decay to parameters with one dimension
  // If `ranges` is not null, the trainer tells the RangeSink, for profilers, when each phase of a step begins
  // and ends. The RangeSink also gets a range for each collective of a strategy (AnnotateCollectives). The
  // RangeSink must outlive the trainer.
  RangeSink* ranges = nullptr;
  bool check_gradients = false;  // strategies search every gradient of this rank for NaN and infinity
  // True if the caller never has two Strategy objects of this trainer at a time. If is_alone is true, a
  // strategy that keeps weights in its own memory may free the weights in the trainer's memory. So the caller
  // must call Trainer::Restart before it makes another strategy.
  bool is_alone = false;
  bool restarts = true;  // if false, initial weights are not kept, and Restart sends rank 0's current ones
};

// How Trainer::Step trains: with which strategy, for how many steps, at which learning rate, and how
// gradients are clipped.
struct Turn {
  ddp::Strategy& strategy;
  comm::RecordingProcessGroup& group;  // the process group in which the strategy communicates
  int64_t num_steps = 1;               // number of timed steps, without barriers between them
  int64_t lead_in_steps = 0;           // number of untimed steps after the barrier, before the timed steps
  // A step divides its batch into `accumulation_steps` parts of equally many sequences or images, and runs
  // forward and backward of one part after the other. The gradient is the mean of the parts' gradients. In
  // the backward pass of the last part, the trainer calls Strategy::OnGradReady for each gradient. If
  // Strategy::needs_every_pass() is true, the trainer also calls OnGradReady in the backward passes of all
  // parts before the last. In the measured times (StepTimes), forward includes the forward passes of all
  // parts, and the backward passes of all parts except the last.
  int64_t accumulation_steps = 1;
  // If the Euclidean norm of all gradients together is larger than clip_norm, the update uses all gradients
  // times clip_norm / norm, similar to PyTorch's clip_grad_norm_. With a strategy that does not average
  // gradients, each rank clips its own gradients by their own norm.
  double clip_norm = std::numeric_limits<double>::infinity();
  double learning_rate = 0;  // if 0, the learning rate of TrainerOptions
};

// Returns the value of `scalar`, a tensor of one floating-point number.
double ToDouble(const model::Tensor& scalar);

// Owns one rank's copy of the model and an optimizer, and takes training steps with them. The strategies that
// Trainer::NewStrategy makes all train this one copy of the model.
class Trainer {
 public:
  // The trainer uses `group` for barriers, and in Restart to send rank 0's weights and buffers to all ranks.
  // Strategies may communicate in other process groups. The groups of all strategies, and `group`, must
  // outlive the trainer.
  Trainer(std::unique_ptr<model::Model> model, const TrainerOptions& options, const model::DevicePtr& device,
          comm::RecordingProcessGroup& group, CpuClock cpu_clock);

  const model::DevicePtr& device() const { return device_; }
  comm::RecordingProcessGroup& group() { return group_; }
  model::Model& model() { return *model_; }
  model::Optimizer& optimizer() { return *optimizer_; }
  std::span<model::Parameter* const> params() const { return model_->parameters(); }
  int64_t num_elements() const;

  // Removes all gradients. If a strategy has moved the weights into its own memory, BeginGradients makes the
  // parameters use the trainer's memory for weights again. BeginGradients copies no weights: the trainer's
  // memory has the values from before the strategy moved them. If TrainerOptions::is_alone is true, the
  // strategy may have freed this memory, and the values are undefined. BeginGradients also allocates the
  // trainer's memory for gradients, unless it is already allocated. The next backward pass overwrites this
  // memory with its gradients.
  void BeginGradients();
  // Removes all gradients and makes the parameters use the trainer's memory for weights, as BeginGradients
  // does. ResetGradients never allocates memory for gradients.
  void ResetGradients();

  RangeSink* ranges() const { return options_.ranges; }

  // Allocates the memory that a strategy with the properties `traits` needs and does not have itself: the
  // trainer's memory for gradients unless traits.places_gradients is true, and the optimizer's state unless
  // traits.owns_state is true.
  void Provide(const ddp::Traits& traits);
  // Makes the strategy named `name`, which communicates in `group`. Also calls Provide, which allocates
  // memory that the strategy needs. The strategy must be destroyed before the trainer. Throws InvalidInput
  // for an unknown name, a wrong option, or a dtype or device of the parameters that the strategy does not
  // support.
  std::unique_ptr<ddp::Strategy> NewStrategy(const std::string& name, const ddp::StrategyOptions& options,
                                             comm::RecordingProcessGroup& group);

  // Makes the parameters use the trainer's memory for weights, and zeroes the optimizer's state. Sets the
  // parameters and buffers of all ranks to rank 0's initial values. If TrainerOptions::restarts is false, all
  // ranks instead get the values in the memory of rank 0's trainer. A strategy that has moved the weights
  // into its own memory does not update these values. All ranks must call Restart.
  void Restart();

  // Waits for all ranks, then runs turn.lead_in_steps untimed and turn.num_steps timed training steps,
  // without a barrier between any two steps. If turn.lead_in_steps is 0, only the last timed step broadcasts
  // rank 0's buffers (such as those of batch norms) before its forward pass. If turn.lead_in_steps is not 0,
  // every step broadcasts rank 0's buffers. If the strategy keeps whole gradients on each rank, the
  // parameters have the gradients of the last timed step when Step returns. After a call of Step,
  // turn.group.entries() has the collectives of the untimed and the timed steps. If `tracer` is not null, the
  // timed steps report to `tracer` the broadcast of buffers. The timed steps also report the operations of
  // forward and backward, but only those for the last of the turn.accumulation_steps parts of the batch.
  StepResult Step(const Turn& turn, const model::Batch& batch, model::Tracer* tracer = nullptr);
  // Runs turn.num_steps training steps without measuring their times. When StepWithWholeGradients returns,
  // the parameters have the whole weights, and the whole gradients of the last step, so that the caller can
  // check them. These gradients are copies, in memory that does not belong to the strategy.
  void StepWithWholeGradients(const Turn& turn, const model::Batch& batch);
  // For tests: replaces the clocks by which the trainer measures its steps. `timer` gives the times at which
  // forward, backward, synchronisation and the update of the weights begin and end. `now` returns the time in
  // ns on the same clock as `timer`. With `now` the trainer measures when Strategy::BeginStep returns, and
  // the calls of OnGradReady and OnUse in a step's last backward pass.
  void SetClock(std::unique_ptr<PhaseTimer> timer, std::function<int64_t()> now);
  // Returns, for error messages, the name of the phase that the trainer has reached in its current or last
  // step: "start", "forward", "backward", "synchronisation", "optimizer" or "end".
  std::string_view phase() const { return phase_; }

  // Returns the mean loss of this rank's batch in the last step, computed with the weights before the update.
  // After ComputeGradientsAlone, returns the mean loss of the last of the `batches`. Returns NaN before the
  // first step or ComputeGradientsAlone.
  double loss() const;

  // Returns how many floating-point operations the matrix products, attention and convolutions take in
  // forward and backward of `batch`; other operations count 0. Runs forward of one of the
  // `accumulation_steps` equal parts of `batch`, and multiplies the count by the number of parts. Computes
  // the operations of backward from those of forward.
  double CountFlops(const model::Batch& batch, int64_t accumulation_steps = 1);

  // Returns how many bytes in the trainer's own memory a strategy with the properties `traits` needs. The sum
  // has the model's buffers (such as those of batch norms), and Parameter::own_bytes() of each parameter. The
  // sum also has the trainer's gradients unless traits.places_gradients is true, and the optimizer's state
  // unless traits.owns_state is true.
  int64_t SharedBytes(const ddp::Traits& traits) const;

  // Lets the optimizer update the weights with the parameters' current gradients. If the Euclidean norm of
  // all gradients together is larger than `clip_norm`, the optimizer uses the gradients times clip_norm /
  // norm. If `learning_rate` is 0, the learning rate is TrainerOptions::learning_rate.
  void StepOptimizer(double clip_norm = std::numeric_limits<double>::infinity(), double learning_rate = 0);

  // Sets the parameters' gradients to the mean of the gradients of `batches`, such as the batches of all
  // ranks, without communication. The gradients of the batches are computed one after the other, and not
  // those of one large batch, because a batch norm depends on the whole batch. The loss is multiplied by
  // `loss_scale` before backward, and the gradients are divided by it at the end. To check a strategy's
  // gradients, pass its loss_scale(): each batch's gradients then have the same rounding errors as on its
  // rank.
  void ComputeGradientsAlone(std::span<const model::Batch> batches, int64_t accumulation_steps = 1,
                             double loss_scale = 1);

 private:
  // Ends the current phase of a step (such as "forward") and begins `phase`. timer_ records the time of this
  // change under the name `mark`.
  void Enter(std::string_view phase, Mark mark);
  // Sets the optimizer's learning rate to `rate`, or to TrainerOptions::learning_rate if `rate` is 0.
  void SetLearningRate(double rate);
  void TakeValuesBack();
  void AllocateGradients();
  // Divides `batch` into `accumulation_steps` equal parts. Runs forward and backward of each part except the
  // last, and only forward of the last part. Returns the loss of the batch's last part, times loss_scale /
  // accumulation_steps.
  model::Var Forward(const model::Batch& batch, int64_t accumulation_steps, double loss_scale,
                     model::Tracer* tracer = nullptr, ddp::Strategy* strategy = nullptr);
  // Takes one step, from Strategy::BeginStep to Strategy::Update. If `communicates` is true, sends rank 0's
  // values of the model's buffers (such as those of batch norms) to all ranks before forward. If `keep` is
  // not null, appends a copy of each parameter's whole gradient, after synchronisation, to this list.
  StepTimes TakeStep(const Turn& turn, bool communicates, const model::Batch& batch, model::Tracer* tracer,
                     StepResult& result, std::vector<model::Tensor>* keep);

  const TrainerOptions options_;
  const model::DevicePtr device_;
  comm::RecordingProcessGroup& group_;
  const CpuClock cpu_clock_;
  std::vector<model::Tensor> losses_;  // loss of each part of the last batch
  // Maps each process group that was passed to NewStrategy to its wrapper, in which the strategy
  // communicates. The wrapper (AnnotateCollectives) reports each collective to TrainerOptions::ranges. If
  // TrainerOptions::ranges is null, there are no wrappers, and the map is empty.
  std::map<comm::RecordingProcessGroup*, std::unique_ptr<comm::ProcessGroup>> annotated_groups_;
  std::string_view phase_ = "start";
  std::unique_ptr<model::Model> model_;
  // The trainer's memory for gradients, one tensor for each parameter. Backward stores gradients in these
  // tensors for strategies without their own memory for gradients. The vector is empty until
  // AllocateGradients is called.
  std::vector<model::Tensor> default_grads_;
  std::vector<model::Tensor> initial_values_;   // rank 0 only, on the CPU
  std::vector<model::Tensor> initial_buffers_;  // rank 0 only, on the CPU
  std::unique_ptr<ddp::BufferBroadcast> buffer_broadcast_;
  std::unique_ptr<model::Optimizer> optimizer_;
  std::unique_ptr<PhaseTimer> timer_;
  std::function<int64_t()> now_ = comm::Now;
};

}  // namespace gradsync::bench
