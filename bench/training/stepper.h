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

// Takes one rank's training steps with a strategy of gradsync or of PyTorch.
class Stepper {
 public:
  // `setting` and `variant` must outlive the stepper.
  Stepper(const Setting& setting, const TrainingVariant& variant) : setting_(setting), variant_(variant) {}
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  const Setting& setting() const { return setting_; }
  const TrainingVariant& variant() const { return variant_; }

  // Takes TrainingVariant::lead_in_steps() untimed and then turn_steps() timed training steps on `batch`. For
  // most variants these are no untimed step and one timed step. Returns the measurements on this rank; times
  // are means over the timed steps. If `tracer` is not null, the timed steps of a gradsync strategy report to
  // `tracer` as those of Trainer::Step do. A strategy of PyTorch ignores `tracer`.
  virtual StepResult Step(const model::Batch& batch, model::Tracer* tracer) = 0;
  virtual std::span<const comm::RecordingProcessGroup::Entry> collectives() const { return {}; }

  // Returns Strategy::loss_scale(), a factor by which the loss is multiplied before backward; 1 for a
  // strategy of PyTorch.
  virtual double loss_scale() const = 0;
  // Sets the weights of all ranks to the values that Trainer::Restart sets, and then trains. A strategy of
  // gradsync takes k training steps if it averages weights every k steps; all others take one step. On
  // return, the trainer's parameters on each rank have the whole (unsharded) gradients of the last step, and
  // the whole new weights. Call StepFromStart after at least one call of Step.
  virtual void StepFromStart(const model::Batch& batch) = 0;
  // Trains like StepFromStart, but from the current weights and the current states of the optimizer and the
  // strategy. Throws std::logic_error for a strategy of PyTorch.
  virtual void StepOn(const model::Batch& /*batch*/) { throw std::logic_error("StepOn: of a peer"); }

  // Calls Strategy::CompleteValues of a gradsync strategy, so that the trainer's parameters have the whole
  // weights. Does nothing for a strategy of PyTorch. All ranks must call CompleteValues.
  virtual void CompleteValues() {}

  // Adds to `record` facts about the strategy. The bucket sizes of a gradsync strategy go to Record::buckets,
  // those of PyTorch's DistributedDataParallel to Record::facts. For a strategy of PyTorch, Introduce also
  // replaces the libraries, compiler and clock in Record::provenance. Call Introduce after the first call of
  // Step.
  virtual void Introduce(Record& record) const = 0;
  // Adds to `facts` the device memory in bytes, such as the peak, that the strategy needed on this rank in
  // the calls of Step. For PyTorch on a GPU, the peak counts all strategies of the Python process. For
  // PyTorch on the CPU, the peak is "unknown".
  virtual void Describe(FactFields& facts) const = 0;

 private:
  const Setting& setting_;
  const TrainingVariant& variant_;
};

// Makes a Stepper for a strategy of gradsync, which communicates in `group`. `trainer` and `group` must
// outlive the Stepper.
std::unique_ptr<Stepper> MakeOwnStepper(const Setting& setting, const TrainingVariant& variant,
                                        Trainer& trainer, comm::RecordingProcessGroup& group);

// Makes a Stepper for a strategy of PyTorch, whose steps are taken by the Python process of `process`.
// `process` and `trainer` must outlive the Stepper.
std::unique_ptr<Stepper> MakePeerStepper(const Setting& setting, const TrainingVariant& variant,
                                         PyTorchPeer& process, Trainer& trainer);

}  // namespace gradsync::bench
