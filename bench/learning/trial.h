#pragma once

#include <cstdint>
#include <memory>

#include "bench/learning/corpus.h"
#include "bench/learning/options.h"
#include "bench/training/batches.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "comm/queue/recording_process_group.h"
#include "ddp/interface/strategy.h"
#include "model/tensor/device.h"

namespace gradsync::bench {

// What one rank measured in a training step.
struct TrialStep {
  StepResult result;
  double loss = 0;        // loss of this rank's batch before the update, in nats per byte
  double sent_bytes = 0;  // bytes that each rank sends (ddp::SentBytes)
};

// Trains a new model with one variant (a strategy with options); this object is one rank's part of the
// training. `seed` decides the initial weights and the batches. The constructor, Step and MeasureHeldOutLoss
// communicate, so all ranks must call them in the same order.
class Trial {
 public:
  // `plan`, `variant`, `text`, `run` and `group` must outlive the trial. The strategy sends gradients and
  // weights over the process group `group`; over the process group `run`, the ranks wait for each other, and
  // exchange the initial weights and held-out losses.
  Trial(const ConvergencePlan& plan, const TrainingVariant& variant, int64_t seed, const Corpus& text,
        const model::DevicePtr& device, comm::RecordingProcessGroup& run, comm::RecordingProcessGroup& group);

  int64_t num_steps() const { return num_steps_; }
  const Trainer& trainer() const { return trainer_; }

  // Returns the number of tokens on which this rank trains in one step.
  int64_t batch_positions() const { return batch_.inputs.numel(); }

  TrialStep Step();
  // Returns, on every rank, the mean loss over sequences of the held-out text, in nats per byte. The ranks
  // divide the --held_out_windows sequences among themselves, and each rank computes the loss of its
  // sequences.
  double MeasureHeldOutLoss();

 private:
  const ConvergencePlan& plan_;
  const TrainingVariant& variant_;
  const Corpus& text_;
  comm::RecordingProcessGroup &run_, &group_;
  std::unique_ptr<BatchSource> source_;
  Trainer trainer_;
  std::unique_ptr<ddp::Strategy> strategy_;
  model::Batch batch_;
  int64_t num_steps_ = 0;
};

}  // namespace gradsync::bench
