#pragma once

#include <memory>
#include <span>
#include <stdexcept>

#include "bench/launch/rank_options.h"
#include "bench/peers/pytorch.h"
#include "bench/records/record.h"
#include "bench/training/tasks.h"
#include "bench/training/trainer.h"
#include "bench/training/variant.h"
#include "comm/processes/temporary_directory.h"
#include "comm/rendezvous/world.h"
#include "model/model.h"

namespace gradsync::bench {

// What takes the steps of one variant of a cell on this rank.
class Stepper {
 public:
  // Both must outlive it.
  Stepper(const Cell& cell, const TrainingVariant& variant) : cell_(cell), variant_(variant) {}
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  const Cell& cell() const { return cell_; }
  const TrainingVariant& variant() const { return variant_; }

  // Takes one training step. A variant with a period takes all its steps, and returns their means. If the
  // variant is gradsync's own, `tracer` hears of the step (unless it is null), and the trainer's parameters
  // have its gradients afterwards.
  virtual StepResult Step(const model::Batch& batch, model::Tracer* tracer) = 0;
  // The collectives of the last one.
  virtual std::span<const comm::RecordingProcessGroup::Entry> collectives() const { return {}; }

  // What its step scales the loss by.
  virtual double loss_scale() const = 0;
  // The step of a check, from rank 0's initial weights: afterwards the trainer's parameters hold the
  // variant's gradients and values. After others, because a strategy may move its buckets after its first.
  virtual void StepFromStart(const model::Batch& batch) = 0;
  // Another one, which goes on from there. Only of gradsync's own.
  virtual void StepOn(const model::Batch& /*batch*/) { throw std::logic_error("StepOn: of a peer"); }

  // The trainer's parameters have whole values. All ranks call.
  virtual void CompleteValues() {}

  // Adds to a record what is known after a first timed step: provenance and buckets.
  virtual void Introduce(Record& record) const = 0;
  // The facts of all steps so far.
  virtual void Describe(FactFields& facts) const = 0;

 private:
  const Cell& cell_;
  const TrainingVariant& variant_;
};

// One of gradsync's own strategies, which communicates in `group`. What is given by reference must outlive
// it.
std::unique_ptr<Stepper> MakeOwnStepper(const Cell& cell, const TrainingVariant& variant, Trainer& trainer,
                                        comm::RecordingProcessGroup& group);

// Peers' variants, whose steps another process takes, and the files by which it and the trainer exchange
// weights and gradients. All ranks call.
class Peers {
 public:
  // Starts the process. What is given by reference must outlive this.
  Peers(const PeerProgram& program, const RankOptions& options, std::string_view backend,
        const comm::World& world, Trainer& trainer);

  // Has the process make what the peers among `variants` train, from rank 0's initial weights. `config`: what
  // all their records have. To be called before Make, for each set of variants that take turns.
  void Begin(std::span<const TrainingVariant> variants, const ConfigFields& config);
  std::unique_ptr<Stepper> Make(const Cell& cell, const TrainingVariant& variant);

 private:
  Trainer& trainer_;
  const comm::TemporaryDirectory files_;
  PyTorchPeer process_;
};

}  // namespace gradsync::bench
