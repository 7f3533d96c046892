#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "bench/launch/rank.h"
#include "bench/records/record.h"
#include "bench/training/batches.h"
#include "bench/training/plan.h"
#include "bench/training/stepper.h"
#include "bench/training/trainer.h"
#include "bench/training/verification/verify.h"

namespace gradsync::bench {

// Compares the results of variants with the results of a single process that trains on the batches of all
// ranks; every rank computes the latter itself. The results of strategies that are not exact are compared
// with the strategy's equation.
class Verifier {
 public:
  // All arguments must outlive the verifier.
  Verifier(const TrainingPlan& plan, BatchSource& source, Trainer& trainer, Rank& rank)
      : plan_(plan), source_(source), trainer_(trainer), rank_(rank) {}

  // Returns whether all ranks have equal gradients after timed step `round`. For a strategy that has only
  // parts of gradients, compares weights, which the strategy gathers. Throws std::runtime_error if they
  // differ, unless the variant's replicas diverge by design. Only for gradsync's own variants. All ranks must
  // call this.
  bool SpotCheck(Stepper& stepper, int64_t round);

  // Takes a step of the variant on a fixed batch, unless nothing is to be checked, and returns the checks for
  // the variant's record. If the variant is wrong, and its replicas do not diverge by design, adds a fault to
  // the rank. All ranks must call this.
  CheckFields Check(Stepper& stepper);

 private:
  Agreement CheckSingleProcess(Stepper& stepper, const model::Batch& batch);
  void MakeReference(const Setting& setting, double loss_scale);
  double ToleranceOf(const Stepper& stepper) const;

  const TrainingPlan& plan_;
  BatchSource& source_;
  Trainer& trainer_;
  Rank& rank_;
  // What the gradients of the single process depend on.
  struct ReferenceKey {
    BatchShape batch;
    int64_t num_passes;  // the number of parts of each batch
    double loss_scale;

    bool operator==(const ReferenceKey&) const = default;
  };

  std::vector<model::Tensor> reference_;  // gradients of the single process, on the CPU
  std::optional<ReferenceKey> reference_of_;
};

// Compares a variant whose strategy has a reference (ddp/lossy/reference.h) with this reference, in the first
// turns from the initial weights. A turn is a step, or, if the strategy averages weights, a period: the steps
// until weights are averaged. Several turns are necessary, because a strategy has no state in the first turn.
// All ranks must call this. Each rank computes all turns with one batch of its own, all ranks exchange the
// results, and each rank runs the reference for its share of the parameters.
//
// If a strategy changes gradients, the check compares the gradients, computed from the current weights, and
// compares the weights with the optimizer's result for these gradients. If a strategy averages weights, the
// check compares the change of the weights.
Agreement CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer);

// Returns whether a variant's step is spot-checked: one randomly drawn step of every `rounds_per_check`
// rounds.
bool IsSpotChecked(int64_t round, int variant, int64_t rounds_per_check, uint64_t seed);

}  // namespace gradsync::bench
