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
#include "bench/training/verify.h"

namespace gradsync::bench {

// Compares what variants compute with a single process that has the batches of all ranks, which every rank
// is for itself; or, where they are meant to differ from it, with their equation.
class Verifier {
 public:
  // All must outlive it.
  Verifier(const TrainingPlan& plan, BatchSource& source, Trainer& trainer, Rank& rank)
      : plan_(plan), source_(source), trainer_(trainer), rank_(rank) {}

  // Whether all ranks have the same gradients after timed step `round`, or, of a strategy that has parts of
  // them only, the same weights, which it has brought to all. Throws std::runtime_error if they are not and
  // the variant is not meant to drift. Only of gradsync's own. All ranks call.
  bool SpotCheck(Stepper& stepper, int64_t round);

  // Has the variant take a step on a fixed batch, unless nothing of it is to be checked, and returns what
  // came of that, for its record's checks. A variant that is wrong, and is not meant to drift, is a fault of
  // the rank. All ranks call.
  CheckFields Check(Stepper& stepper);

 private:
  Verdict CheckSingleProcess(Stepper& stepper, const model::Batch& batch);
  void MakeReference(const Cell& cell, double loss_scale);
  double ToleranceOf(const Stepper& stepper) const;

  const TrainingPlan& plan_;
  BatchSource& source_;
  Trainer& trainer_;
  Rank& rank_;
  std::vector<model::Tensor> reference_;  // gradients, on the CPU
  // Its batches, in how many parts each is taken, and its loss scale.
  std::optional<std::tuple<BatchShape, int64_t, double>> reference_of_;
};

// Whether a variant whose strategy has a reference (ddp/reference.h) does what that says, in its first turns
// from the initial weights, each on the same batch of this rank: in the first it has nothing to remember. All
// ranks call. Every rank computes with its own batch alone, all exchange what came out, and each gives the
// part of the parameters that falls to it to the reference.
//
// If a strategy changes gradients, a turn is a step: its gradients are compared, from the weights that it
// has by then, and the weights with what the optimizer makes of them. If it averages weights, a turn is
// a period: how far it has changed the weights is compared.
Verdict CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer);

// Whether a variant's step is spot-checked: one of each `rounds_per_check`, drawn.
bool IsSpotChecked(int64_t round, int variant, int64_t rounds_per_check, uint64_t seed);

}  // namespace gradsync::bench
