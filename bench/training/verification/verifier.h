#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/launch/rank.h"
#include "bench/records/record.h"
#include "bench/training/batches.h"
#include "bench/training/plan.h"
#include "bench/training/stepper.h"
#include "bench/training/trainer.h"
#include "bench/training/verification/verify.h"

namespace gradsync::bench {

// Checks the gradients and weights that strategies compute. The expected values are those of one process that
// trains on the batches of all ranks, which every rank computes itself. For a strategy that changes gradients
// by design (compression), or averages weights only now and then, they come from the equation in its paper.
class Verifier {
 public:
  // All arguments must outlive the verifier.
  Verifier(const TrainingPlan& plan, BatchSource& source, Trainer& trainer, Rank& rank)
      : plan_(plan), source_(source), trainer_(trainer), rank_(rank) {}

  // Returns whether all ranks have equal gradients after timed step `round`. For a strategy that shards
  // gradients, weights are gathered and compared instead. Throws std::runtime_error if they differ, unless
  // ranks' weights differ by design. Must not be called for strategies of PyTorch. All ranks must call this.
  bool SpotCheck(Stepper& stepper, int64_t round);

  // Takes a step on a fixed batch, compares the result with the expected values, and returns the errors for
  // the record. Takes no step if --verify=false. If the result is wrong, and not by design (as without
  // communication), calls Rank::AddFault. All ranks must call this.
  CheckFields Check(Stepper& stepper);

 private:
  Agreement CheckSingleProcess(Stepper& stepper, const model::Batch& batch);
  void MakeReference(const Setting& setting, double loss_scale);
  double ToleranceOf(const Stepper& stepper) const;

  const TrainingPlan& plan_;
  BatchSource& source_;
  Trainer& trainer_;
  Rank& rank_;
  // Everything on which the gradients of the single process depend. If it is the same for the next strategy,
  // they are not computed again.
  struct ReferenceKey {
    BatchShape batch;
    int64_t num_passes;  // number of parts of each batch (gradient accumulation)
    double loss_scale;

    bool operator==(const ReferenceKey&) const = default;
  };

  std::vector<model::Tensor> reference_;  // gradients of the single process, on the CPU
  std::optional<ReferenceKey> reference_of_;
};

// Compares a strategy with a plain implementation of its equation (ddp/lossy/reference.h), from the initial
// weights. It is compared over two steps, or, if it averages weights after several steps, over two averages,
// because what it remembers, such as a compression error, has no effect in the first. All ranks must call
// this. Each rank always uses the same `batch`.
//
// For a strategy that changes gradients, compares the gradients of each step, and the final weights with what
// the optimizer makes of these gradients. For a strategy that averages weights, compares by how much they
// changed.
Agreement CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer);

// Returns whether ranks compare their gradients after the step of strategy number `variant` in round `round`.
// In each `rounds_per_check` rounds, this is true of one round, which is drawn at random.
bool IsSpotChecked(int64_t round, int variant, int64_t rounds_per_check, uint64_t seed);

}  // namespace gradsync::bench
