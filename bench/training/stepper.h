#pragma once

#include <memory>
#include <span>
#include <stdexcept>

#include "bench/peers/pytorch.h"
#include "bench/records/record.h"
#include "bench/training/tasks.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "model/model.h"

namespace gradsync::bench {

// A Stepper takes one rank's training steps of one variant: a strategy with its options, of gradsync or of
// PyTorch.
class Stepper {
 public:
  // `setting` and `variant` must outlive the stepper.
  Stepper(const Setting& setting, const TrainingVariant& variant) : setting_(setting), variant_(variant) {}
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  const Setting& setting() const { return setting_; }
  const TrainingVariant& variant() const { return variant_; }

  // Takes one turn, which is one measurement of the variant on `batch`. A turn has
  // TrainingVariant::turn_steps() timed training steps, for most variants one. Returns this rank's
  // measurements; the times are means over the turn's timed steps. A strategy of gradsync reports the
  // operations of forward and backward in the timed steps to `tracer`, unless `tracer` is null (see
  // Trainer::Step). If a strategy of gradsync keeps whole gradients on each rank, the trainer's parameters
  // have the gradients of the last timed step when Step returns.
  virtual StepResult Step(const model::Batch& batch, model::Tracer* tracer) = 0;
  virtual std::span<const comm::RecordingProcessGroup::Entry> collectives() const { return {}; }

  // Returns the factor by which the trainer multiplies the loss before backward (Strategy::loss_scale), or 1
  // for a strategy of PyTorch.
  virtual double loss_scale() const = 0;
  // Sets the weights to rank 0's initial weights, and then takes one or more training steps. For one of
  // PyTorch's own strategies (such as DistributedDataParallel), StepFromStart takes one step. For a strategy
  // of gradsync, it takes variant().period() steps: k steps if the strategy averages weights every k steps,
  // else one step. When StepFromStart returns, the trainer's parameters have the whole gradients and the
  // whole new weights, so that the caller can check them. Call StepFromStart after at least one call of Step:
  // a strategy may change its buckets after its first step, and the check should cover the changed buckets.
  virtual void StepFromStart(const model::Batch& batch) = 0;
  // Takes variant().period() training steps from the current weights (k steps if the strategy averages
  // weights every k steps, else one step), so that the caller can check these steps. When StepOn returns, the
  // trainer's parameters have the whole gradients and the whole new weights. For a strategy of PyTorch,
  // StepOn takes no step and throws std::logic_error.
  virtual void StepOn(const model::Batch& /*batch*/) { throw std::logic_error("StepOn: of a peer"); }

  // Gathers the whole weights into the trainer's parameters, if the variant is a strategy of gradsync that
  // keeps only a part of the weights on each rank. All ranks must call the function together, because the
  // gathering is a collective.
  virtual void CompleteValues() {}

  // Adds to `record` facts about the strategy that are known after the first timed step, such as the sizes of
  // its buckets. For a strategy of gradsync, these facts include how many bytes of weights, gradients and
  // optimizer state this rank keeps between steps.
  virtual void Introduce(Record& record) const = 0;
  // Adds to `facts` the peak memory in bytes of the variant's steps so far on this rank's device. For a
  // strategy of gradsync, also adds the memory in use directly before and after the optimizer's update.
  virtual void Describe(FactFields& facts) const = 0;

 private:
  const Setting& setting_;
  const TrainingVariant& variant_;
};

// Makes a Stepper for `variant`, a strategy of gradsync that communicates in the process group `group`.
std::unique_ptr<Stepper> MakeOwnStepper(const Setting& setting, const TrainingVariant& variant,
                                        Trainer& trainer, comm::RecordingProcessGroup& group);

// Makes a Stepper for `variant`, a strategy of PyTorch. The Python process that `process` controls takes the
// steps.
std::unique_ptr<Stepper> MakePeerStepper(const Setting& setting, const TrainingVariant& variant,
                                         PyTorchPeer& process, Trainer& trainer);

}  // namespace gradsync::bench
