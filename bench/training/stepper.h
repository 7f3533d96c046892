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

// Takes the steps of one variant of a setting on this rank.
class Stepper {
 public:
  // `setting` and `variant` must outlive the stepper.
  Stepper(const Setting& setting, const TrainingVariant& variant) : setting_(setting), variant_(variant) {}
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  const Setting& setting() const { return setting_; }
  const TrainingVariant& variant() const { return variant_; }

  // Takes one training step. A variant with a period takes all steps of the period, and returns the means of
  // their times. If the variant is gradsync's own, reports the step to `tracer` (unless it is null), and
  // leaves the gradients in the trainer's parameters.
  virtual StepResult Step(const model::Batch& batch, model::Tracer* tracer) = 0;
  // Returns the collectives of the last step.
  virtual std::span<const comm::RecordingProcessGroup::Entry> collectives() const { return {}; }

  // Returns the factor of the loss in a step.
  virtual double loss_scale() const = 0;
  // Takes the step of a check, from rank 0's initial weights. Afterwards the trainer's parameters have the
  // variant's gradients and values. Call this after other steps, because a strategy may move its buckets
  // after the first step.
  virtual void StepFromStart(const model::Batch& batch) = 0;
  // Takes another step of a check, from the weights after the previous step. Only for gradsync's own
  // variants.
  virtual void StepOn(const model::Batch& /*batch*/) { throw std::logic_error("StepOn: of a peer"); }

  // Makes the values of the trainer's parameters whole. All ranks must call this.
  virtual void CompleteValues() {}

  // Adds to a record the facts that are known after the first timed step: provenance and buckets.
  virtual void Introduce(Record& record) const = 0;
  // Adds the facts of all steps so far.
  virtual void Describe(FactFields& facts) const = 0;

 private:
  const Setting& setting_;
  const TrainingVariant& variant_;
};

// Makes the stepper of one of gradsync's own variants, which communicates in `group`. Arguments that are
// references must outlive the stepper.
std::unique_ptr<Stepper> MakeOwnStepper(const Setting& setting, const TrainingVariant& variant,
                                        Trainer& trainer, comm::RecordingProcessGroup& group);

// Makes the stepper of a peer's variant, whose steps `process` takes. Arguments that are references must
// outlive the stepper.
std::unique_ptr<Stepper> MakePeerStepper(const Setting& setting, const TrainingVariant& variant,
                                         PyTorchPeer& process, Trainer& trainer);

}  // namespace gradsync::bench
