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

// A Verifier checks the gradients and weights that strategies compute. The expected gradients are those of
// one process that trains on the batches of all ranks; every rank computes them itself. The expected weights
// are those that the optimizer computes from the strategy's own gradients after synchronisation. For a
// gradsync strategy that compresses gradients, CheckEquation computes the expected gradients by the
// strategy's equation (ddp/lossy/reference.h). For a gradsync strategy that averages weights only every few
// steps, CheckEquation computes the expected weights by the strategy's equation.
class Verifier {
 public:
  // All arguments of the constructor must outlive the verifier.
  Verifier(const TrainingPlan& plan, BatchSource& source, Trainer& trainer, Rank& rank)
      : plan_(plan), source_(source), trainer_(trainer), rank_(rank) {}

  // If IsSpotChecked is true for a variant in timed round `round`, call SpotCheck with the variant's
  // `stepper` after the variant has taken its training steps of this round. Compares the ranks' gradients
  // bitwise, or, for a strategy that shards the optimizer's state, the ranks' whole weights. Returns true if
  // the compared tensors are equal on all ranks. If they differ, returns false for a strategy that lets
  // ranks' weights differ by design, and throws std::runtime_error on all ranks for any other strategy. All
  // ranks must call SpotCheck. The strategy must be one of gradsync, not of PyTorch.
  bool SpotCheck(Stepper& stepper, int64_t round);

  // Takes training steps on a fixed batch of each rank, compares the gradients, the weights or both with the
  // expected values, and returns the errors for the benchmark's record. If --verify=false, Check takes no
  // step and compares nothing. Check also takes no step for a strategy of PyTorch if traits->twin_differs_by
  // is infinite, as for PyTorch's twin of local_sgd. Check takes no step for any strategy of PyTorch on
  // images in bf16. If a gradient or weight is wrong, or differs between ranks, Check calls Rank::AddFault:
  // the program then ends with an error after all measurements. For the strategies `none` of gradsync and of
  // PyTorch, which do not communicate, Check returns the errors, but never calls AddFault. All ranks must
  // call Check.
  CheckFields Check(Stepper& stepper);

 private:
  Agreement CheckSingleProcess(Stepper& stepper, const model::Batch& batch);
  void MakeReference(const Setting& setting, double loss_scale);
  double ToleranceOf(const Stepper& stepper) const;

  const TrainingPlan& plan_;
  BatchSource& source_;
  Trainer& trainer_;
  Rank& rank_;
  // A ReferenceKey has those values that may differ between checks and on which the expected gradients in
  // reference_ depend. If the next strategy's check has an equal key, it uses the gradients in reference_
  // again. If the key differs, the check computes the expected gradients anew. If the number of ranks is a
  // power of two, every ReferenceKey has the `loss_scale` 1, because multiplying the loss by 1 / (number of
  // ranks) then causes no rounding errors. For other numbers of ranks, `loss_scale` is the strategy's own
  // factor for the loss (Stepper::loss_scale()), so that the expected gradients are rounded like the
  // strategy's.
  struct ReferenceKey {
    BatchShape batch;
    int64_t num_passes;  // number of parts of each batch (gradient accumulation)
    double loss_scale;

    bool operator==(const ReferenceKey&) const = default;
  };

  std::vector<model::Tensor> reference_;  // gradients of the single process, on the CPU
  std::optional<ReferenceKey> reference_of_;
};

// Compares the gradients or weights that a strategy computes with those of a simple implementation of the
// strategy's equation (ddp/lossy/reference.h). Traits::reference of the gradsync strategy must not be null.
// The strategy and the simple implementation start from the same initial weights. The strategy takes two
// steps or, if it averages weights after several steps, the steps until the second average. All ranks must
// call CheckEquation. Each rank takes all its steps on its own `batch`.
//
// For a strategy with Agreement::kLossy, CheckEquation compares each step's gradients with those of the
// simple implementation. For a kLossy strategy, CheckEquation also compares the final weights with those that
// the optimizer computes from the strategy's gradients. For a strategy that averages weights, CheckEquation
// compares the change of the weights (initial minus final) with that of the simple implementation.
Agreement CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer);

// In a round, every variant that is being measured takes one turn. Returns whether ranks compare their
// gradients or weights (Verifier::SpotCheck) after the turn of variant number `variant` in timed round
// `round`. For each variant, one round is drawn at random from each block of `rounds_per_check` successive
// rounds; the result is true only in this round. `seed`, which must be equal on all ranks, is the seed of the
// random numbers.
bool IsSpotChecked(int64_t round, int variant, int64_t rounds_per_check, uint64_t seed);

}  // namespace gradsync::bench
