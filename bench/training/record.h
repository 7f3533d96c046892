#ifndef GRADSYNC_BENCH_TRAINING_RECORD_H_
#define GRADSYNC_BENCH_TRAINING_RECORD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "bench/training/options.h"
#include "bench/training/trainer.h"
#include "bench/training/verify.h"
#include "ddp/strategy.h"
#include "model/transformer.h"

namespace gradsync::bench {

// The timed steps of one strategy in one contest, on one rank.
struct StrategySamples {
  std::vector<StepResult> steps;
  std::vector<int64_t> positions;  // of each step in the run's own order
  int64_t allocations = 0;         // that the device's memory source was asked for in these steps
};

// What a strategy's check found.
struct StrategyCheck {
  Verdict verdict;
  double tolerance = 0;

  bool grads_equal() const { return verdict.grad_rel_error <= tolerance; }
  bool params_equal() const { return verdict.param_rel_error <= tolerance; }
  bool passed() const { return grads_equal() && params_equal() && verdict.replicas_equal; }
};

// One word for the summary: "equal", "WRONG", or for `none`, whose replicas are meant to part, "replicas
// drift".
std::string VerdictWord(const std::string& strategy, const StrategyCheck& check);
// One line with the strategy, the tensor and the error, for a strategy that failed its check; else empty, and
// always so for `none`.
std::string Fault(const std::string& strategy, const StrategyCheck& check);

// What every training has in its configuration.
void SetTrainingConfig(const TrainingOptions& options, const std::string& strategy, int64_t bucket_bytes,
                       Fields& config);

// The shape of a language model, with overrides.
void SetTransformerConfig(const model::TransformerConfig& model, Fields& config);

void SetTrainingSamples(const StrategySamples& samples, Record& record);
void SetTrainingChecks(const StrategyCheck& check, Fields& checks);

// Its collectives, in the order in which they are sent.
std::vector<BucketRecord> BucketRecords(const ddp::BucketPlan& plan);

// Where something was measured, for people: {"batch", "2"}, {"sequence", "128"}.
using Place = std::vector<std::pair<std::string, std::string>>;

// Of rank 0's own steps: a line for each strategy. Statistics proper are the business of //tools:summarize.
struct SummaryRow {
  Place place;
  std::string strategy;
  // A negative time is not known.
  int64_t step_ns = 0, forward_ns = 0, backward_ns = 0, sync_exposed_ns = 0, optimizer_ns = 0;  // medians
  std::string verdict;
};
SummaryRow Summarize(const Place& place, const std::string& strategy, const StrategySamples& samples,
                     std::string verdict);
// All rows have places of the same names.
std::string FormatSummary(const std::vector<SummaryRow>& rows);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_RECORD_H_
