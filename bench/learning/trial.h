#pragma once

#include <cstdint>
#include <memory>

#include "bench/learning/corpus.h"
#include "bench/learning/options.h"
#include "bench/training/batches.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "comm/queue/recording_process_group.h"
#include "ddp/strategy.h"
#include "model/device.h"

namespace gradsync::bench {

// One step of a trial.
struct TrialStep {
  StepResult result;
  double loss = 0;        // of this rank's batch, before the update, in nats per byte
  double sent_bytes = 0;  // by each rank, see ddp::SentBytes
};

// A model that one variant trains from one seed, on one rank. All ranks make equal objects and calls.
class Trial {
 public:
  // References must outlive it. `group`: the variant's group, `run`: the run's group.
  Trial(const ConvergencePlan& plan, const TrainingVariant& variant, int64_t seed, const Corpus& text,
        const model::DevicePtr& device, comm::RecordingProcessGroup& run, comm::RecordingProcessGroup& group);

  // Steps so far.
  int64_t num_steps() const { return num_steps_; }
  const Trainer& trainer() const { return trainer_; }

  // Positions of this rank's batch in a step.
  int64_t batch_positions() const { return batch_.inputs.numel(); }

  // Takes the next step, on the next batch.
  TrialStep Step();
  // The mean loss over windows of the held-out text, in nats per byte. Ranks share the windows; each rank
  // uses its own replica.
  double HeldOutLoss();

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
