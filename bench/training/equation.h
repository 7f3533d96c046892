#ifndef GRADSYNC_BENCH_TRAINING_EQUATION_H_
#define GRADSYNC_BENCH_TRAINING_EQUATION_H_

#include "bench/training/stepper.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"
#include "model/model.h"

namespace gradsync::bench {

// Whether a variant whose strategy has a reference (ddp/reference.h) does what that says, in its first turns
// from the initial weights, each on the same batch of this rank: in the first it has nothing to remember. All
// ranks call. Every rank computes with its own batch alone, all exchange what came out, and each gives the
// part of the parameters that falls to it to the reference.
//
// Of a strategy that changes gradients a turn is a step: its gradients are compared, from the weights that it
// has by then, and the weights with what the optimizer makes of them. Of one that averages weights a turn is
// a period: how far it has changed the weights is compared.
Verdict CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_EQUATION_H_
