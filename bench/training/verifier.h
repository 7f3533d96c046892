#ifndef GRADSYNC_BENCH_TRAINING_VERIFIER_H_
#define GRADSYNC_BENCH_TRAINING_VERIFIER_H_

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/batches.h"
#include "bench/training/cell.h"
#include "bench/training/options.h"
#include "bench/training/stepper.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"

namespace gradsync::bench {

// Compares what variants compute with a single process that has the batches of all ranks, which every rank
// is for itself; or, where they are meant to differ from it, with their equation.
class Verifier {
 public:
  // All must outlive it.
  Verifier(const TrainingOptions& options, BatchSource& source, Trainer& trainer)
      : options_(options), source_(source), trainer_(trainer) {}

  // Has the variant take a step on a fixed batch, unless nothing of it is to be checked, and returns what
  // came of that, for its record's checks. All ranks call.
  Fields Check(Stepper& stepper);

  // Of the first variant that was wrong and is not meant to drift, in one line; empty if there is none.
  const std::string& first_fault() const { return first_fault_; }

 private:
  Verdict CheckSingleProcess(Stepper& stepper, const model::Batch& batch);
  void MakeReference(const Cell& cell, double loss_scale);
  double ToleranceOf(const Stepper& stepper) const;

  const TrainingOptions& options_;
  BatchSource& source_;
  Trainer& trainer_;
  std::vector<model::Tensor> reference_;  // gradients, on the CPU
  // Of which batches, in how many parts each, and of which loss scale.
  std::optional<std::tuple<BatchShape, int64_t, double>> reference_of_;
  std::string first_fault_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_VERIFIER_H_
