#ifndef GRADSYNC_BENCH_LEARNING_TRIAL_H_
#define GRADSYNC_BENCH_LEARNING_TRIAL_H_

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
  StepResult times;
  double loss = 0;        // of this rank's batch, before the update, in nats for each byte
  double sent_bytes = 0;  // by each rank, see ddp::SentBytes
};

// A model that one variant trains from one seed, on one rank. All ranks make the same ones and call alike.
class Trial {
 public:
  // What is given by reference must outlive it. `group`: the variant's, `run`: that of the run.
  Trial(const ConvergencePlan& plan, const TrainingVariant& variant, int64_t seed, const Corpus& text,
        const model::DevicePtr& device, comm::RecordingProcessGroup& run, comm::RecordingProcessGroup& group);

  // How many steps it has taken.
  int64_t num_steps() const { return num_steps_; }
  const Trainer& trainer() const { return trainer_; }

  // How many this rank sees in a step.
  int64_t batch_positions() const { return batch_.inputs.numel(); }

  // The next one, on the batch of that number.
  TrialStep Step();
  // Mean over windows of the held-out text, which ranks share, in nats for each byte. Each rank judges its
  // own replica.
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

#endif  // GRADSYNC_BENCH_LEARNING_TRIAL_H_
