#ifndef GRADSYNC_BENCH_TRAINING_TRAINER_H_
#define GRADSYNC_BENCH_TRAINING_TRAINER_H_

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
#include "bench/training/variant.h"
#include "comm/queue/recording_process_group.h"
#include "ddp/buffer_broadcast.h"
#include "ddp/factory.h"
#include "ddp/strategy.h"
#include "model/model.h"
#include "model/optimizer.h"

namespace gradsync::bench {

// What one step was like on one rank; most fields are unknown for peers.
struct StepResult {
  StepTimes times;
  std::vector<StepMarks> marks = {};  // of each step of the turn
  // When this rank left the barrier before the step, on the host's clock.
  std::optional<int64_t> begin_ns = {};
  // How long at least one collective of the step was in flight. Counts from the end of forward, or from the
  // step's begin if the strategy may communicate before the last backward pass.
  std::optional<int64_t> comm_busy_ns = {};
  std::optional<CpuTimes> cpu = {};
  std::optional<int64_t> allocations = {};  // that the device's memory source was asked for
  // On the device, when the last step's forward and its update begin, and when that is done.
  int64_t built_bytes = 0, before_update_bytes = 0, after_update_bytes = 0;
};

// Its samples. `position`: in the launch's own order.
Record SamplesOf(const StepResult& step, int64_t position);

struct TrainerOptions {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  bool decay_vectors = true;  // of AdamW, see model::AdamW::Options. Muon iterates in the type of activations
  // Hears of the phases of each step, and of the collectives of strategies; null: nobody does. It must
  // outlive the trainer.
  RangeSink* ranges = nullptr;
  bool check_gradients = false;  // strategies look for NaN and infinity in every gradient of this rank
  // Strategies are made one after the other, with Restart before each but the first, see StrategyOptions.
  bool is_alone = false;
  bool restarts = true;  // false: Restart is called before the first strategy alone
};

// How a strategy trains, whatever the batch.
struct Turn {
  ddp::Strategy& strategy;
  comm::RecordingProcessGroup& group;  // the strategy's
  int64_t num_steps = 1;               // in a row
  int64_t lead_in_steps = 0;           // so many more come first, behind the barrier and untimed
  // A step takes its batch in this many parts with equally many rows, one after the other. Its gradient is
  // the mean of the parts' gradients. The strategy only hears of the last part's, unless it hears every pass:
  // communication begins in the last part's backward pass. What comes before that pass counts as forward.
  int64_t accumulation_steps = 1;
  // If the Euclidean norm of all gradients together is larger than this, they are scaled to this norm (as by
  // PyTorch's clip_grad_norm_, without the 1e-6 that it adds to the norm). If a strategy drifts, each rank
  // clips its own gradients.
  double clip_norm = std::numeric_limits<double>::infinity();
  double learning_rate = 0;  // of these steps; 0: that of TrainerOptions
};

// The value of a tensor of one element.
double ToDouble(const model::Tensor& scalar);

// One rank's replica of the model, which all strategies train in turn: they then compute on the same memory.
class Trainer {
 public:
  // All ranks begin with rank 0's initial weights. `group` must outlive the trainer, as must the other groups
  // that it is given: it serves barriers, initial weights and initial buffers, whatever strategies
  // communicate in.
  Trainer(std::unique_ptr<model::Model> model, const TrainerOptions& options, const model::DevicePtr& device,
          comm::RecordingProcessGroup& group, CpuClock cpu_clock);

  const model::DevicePtr& device() const { return device_; }
  comm::RecordingProcessGroup& group() { return group_; }
  model::Model& model() { return *model_; }
  model::Optimizer& optimizer() { return *optimizer_; }
  std::span<model::Parameter* const> params() const { return model_->parameters(); }
  int64_t num_elements() const;

  // No parameter has a gradient from now on; those to come, and values, are in memory that is no strategy's.
  // Allocates it if no strategy has needed it so far.
  void BeginGradients();
  // The same, but memory for them is only there if a strategy has needed it. Lets go of a strategy's storage.
  void ResetGradients();

  RangeSink* ranges() const { return options_.ranges; }

  // Allocates the gradients and the optimizer's state that a strategy with these traits does not bring along.
  void Provide(const ddp::Traits& traits);
  // Throws InvalidInput for an unknown name or a wrong option. It must not outlive the trainer.
  std::unique_ptr<ddp::Strategy> NewStrategy(const std::string& name, const ddp::StrategyOptions& options,
                                             comm::RecordingProcessGroup& group);

  // All ranks: every parameter and buffer becomes rank 0's initial one, and the optimizer forgets.
  void Restart();

  // One training step, timed after a barrier of all ranks; or the steps of a period, without a barrier
  // between them: then the result's times are means of them. The forward pass of the last one, in which the
  // strategy communicates, begins with giving all ranks rank 0's buffers, if the model has any. Afterwards
  // the parameters hold the step's gradients, as far as the strategy leaves them; the log of the turn's group
  // holds its collectives; and `tracer`, if there is one, has heard of its operations, and of the broadcast
  // of buffers.
  StepResult Step(const Turn& turn, const model::Batch& batch, model::Tracer* tracer = nullptr);
  // The same for a check: afterwards the parameters hold the whole gradients of the last step, in memory that
  // is not the strategy's.
  void StepWithWholeGradients(const Turn& turn, const model::Batch& batch);
  // For tests: steps are timed by this timer, and the strategy's own work on this clock.
  void SetClock(std::unique_ptr<PhaseTimer> timer, std::function<int64_t()> now);
  // What Step is at, for whoever has to say where it failed: "start", "forward", "backward",
  // "synchronisation", "optimizer".
  std::string_view phase() const { return phase_; }

  // The loss of this rank's last batch; of Step, of the last step.
  double loss() const;

  // What forward and backward have to compute of such a batch, see FlopCounter. Takes a forward pass.
  double CountFlops(const model::Batch& batch, int64_t accumulation_steps = 1);

  // Bytes of what is in memory once for all strategies, as far as one with these traits needs it: buffers,
  // gradients, the optimizer's state, and values, unless it has put them elsewhere in its last step.
  int64_t SharedBytes(const ddp::Traits& traits) const;

  // The optimizer's step alone, with the gradients that are there.
  void StepOptimizer(double clip_norm = std::numeric_limits<double>::infinity());

  // Forward and backward by this process alone, without communication: the gradient is the mean of those of
  // the ranks' batches, which are computed one after the other, because what a batch norm computes depends on
  // what else is in the batch. With a strategy's `loss_scale`, each batch's are bitwise what its rank
  // computes.
  void GradientsAlone(std::span<const model::Batch> batches, int64_t accumulation_steps = 1,
                      double loss_scale = 1);

 private:
  // Takes the mark, at which one phase ends and this one begins.
  void Enter(std::string_view phase, Mark mark);
  // From strategies that keep values elsewhere.
  void TakeValuesBack();
  void AllocateGradients();
  // The loss of the last part of a batch, after forward and backward of the others, for their mean.
  // A strategy that hears every pass hears of theirs.
  model::Var Forward(const model::Batch& batch, int64_t accumulation_steps, double loss_scale,
                     model::Tracer* tracer = nullptr, ddp::Strategy* strategy = nullptr);
  // From BeginStep to Update. With `keep`, the whole gradients are copied to there before the update.
  StepTimes TakeStep(const Turn& turn, bool communicates, const model::Batch& batch, model::Tracer* tracer,
                     StepResult& result, std::vector<model::Tensor>* keep);

  const TrainerOptions options_;
  const model::DevicePtr device_;
  comm::RecordingProcessGroup& group_;
  const CpuClock cpu_clock_;
  std::vector<model::Tensor> losses_;  // of the last batch's parts
  // What strategies get in the place of a group, if there are ranges.
  std::map<comm::RecordingProcessGroup*, std::unique_ptr<comm::ProcessGroup>> annotated_groups_;
  std::string_view phase_ = "start";
  std::unique_ptr<model::Model> model_;
  // Where gradients are unless a strategy has places of its own for them. Empty: all have.
  std::vector<model::Tensor> default_grads_;
  std::vector<model::Tensor> initial_values_;   // rank 0 only, on the CPU
  std::vector<model::Tensor> initial_buffers_;  // likewise
  std::unique_ptr<ddp::BufferBroadcast> buffer_broadcast_;
  std::unique_ptr<model::Optimizer> optimizer_;
  std::unique_ptr<PhaseTimer> timer_;
  std::function<int64_t()> now_ = comm::Now;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_TRAINER_H_
