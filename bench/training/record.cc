#include "bench/training/record.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/records/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

struct Series {
  const char* name;
  int64_t (*of)(const StepResult&);
};
constexpr Series kSeries[] = {
    {"step_ns", [](const StepResult& step) { return step.marks.step_ns(); }},
    {"forward_ns", [](const StepResult& step) { return step.marks.forward_ns(); }},
    {"backward_ns", [](const StepResult& step) { return step.marks.backward_ns(); }},
    {"sync_exposed_ns", [](const StepResult& step) { return step.marks.sync_exposed_ns(); }},
    {"optimizer_ns", [](const StepResult& step) { return step.marks.optimizer_ns(); }},
    {"backward_and_sync_ns", [](const StepResult& step) { return step.marks.backward_and_sync_ns(); }},
    {"comm_busy_ns", [](const StepResult& step) { return step.comm_busy_ns; }},
};

// The middle one; of an even number the mean of the two in the middle.
int64_t Median(const std::vector<StepResult>& steps, int64_t (*of)(const StepResult&)) {
  std::vector<int64_t> values;
  for (const StepResult& step : steps) values.push_back(of(step));
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

std::string VerdictWord(const std::string& strategy, const StrategyCheck& check) {
  if (check.passed()) return "equal";
  return strategy == "none" ? "replicas drift" : "WRONG";
}

std::string Fault(const std::string& strategy, const StrategyCheck& check) {
  if (check.passed() || strategy == "none") return "";
  const Verdict& verdict = check.verdict;
  const auto differs = [&](const std::string& what, double error) {
    return Join(strategy, ": ", what, " differs from a single process's by a relative error of ", error,
                ", expected at most ", check.tolerance);
  };
  if (!check.grads_equal()) return differs("the gradient of " + verdict.worst_grad, verdict.grad_rel_error);
  if (!check.params_equal()) return differs(verdict.worst_param, verdict.param_rel_error);
  return strategy + ": gradients or parameters are not bitwise equal on all ranks";
}

void SetTrainingConfig(const TrainingOptions& options, const std::string& strategy, int64_t bucket_bytes,
                       Fields& config) {
  config.Set("strategy", strategy);
  SetRankConfig(options.ranks, options.backend, config);
  config.Set("dtype", options.tf32 ? "tf32" : options.dtype);
  config.Set("bucket_bytes", bucket_bytes);
  config.Set("order", options.order);
  config.Set("warmup_steps", options.warmup_steps);
  config.Set("steps", options.steps);
  config.Set("optimizer", options.optimizer);
  config.Set("learning_rate", options.learning_rate);
  config.Set("traced", options.trace || options.profile || options.nvtx);
}

void SetTransformerConfig(const model::TransformerConfig& model, Fields& config) {
  config.Set("num_layers", model.num_layers);
  config.Set("d_model", model.d_model);
  config.Set("d_ff", model.d_ff);
  config.Set("num_heads", model.num_heads);
  config.Set("vocab_size", model.vocab_size);
}

void SetTrainingSamples(const StrategySamples& samples, Record& record) {
  for (const Series& series : kSeries) {
    std::vector<int64_t>& values = record.samples[series.name];
    for (const StepResult& step : samples.steps) values.push_back(series.of(step));
  }
  record.samples["position"] = samples.positions;
  record.facts.Set("allocations_in_timed_steps", samples.allocations);
}

void SetTrainingChecks(const StrategyCheck& check, Fields& checks) {
  checks.Set("grad_rel_error", Value(check.verdict.grad_rel_error));
  checks.Set("param_rel_error", Value(check.verdict.param_rel_error));
  checks.Set("grads_equal", Value(check.grads_equal()));
  checks.Set("params_equal", Value(check.params_equal()));
  checks.Set("replicas_equal", Value(check.verdict.replicas_equal));
  checks.Set("tolerance", Value(check.tolerance));
  checks.Set("worst_grad", check.verdict.worst_grad);
  checks.Set("worst_param", check.verdict.worst_param);
}

std::vector<BucketRecord> BucketRecords(const ddp::BucketPlan& plan) {
  std::vector<BucketRecord> records;
  for (const ddp::Bucket& bucket : plan.buckets) {
    records.push_back({static_cast<int64_t>(bucket.bytes()), static_cast<int64_t>(bucket.params.size())});
  }
  return records;
}

SummaryRow Summarize(const Place& place, const std::string& strategy, const StrategySamples& samples,
                     std::string verdict) {
  const auto median = [&](size_t i) { return Median(samples.steps, kSeries[i].of); };
  return {place, strategy, median(0), median(1), median(2), median(3), median(4), std::move(verdict)};
}

std::string FormatSummary(const std::vector<SummaryRow>& rows) {
  if (rows.empty()) return "";
  std::vector<size_t> widths;
  for (size_t i = 0; i < rows.front().place.size(); ++i) {
    widths.push_back(rows.front().place[i].first.size());
    for (const SummaryRow& row : rows) widths[i] = std::max(widths[i], row.place[i].second.size());
  }
  std::string text;
  const auto add = [&](size_t column, const std::string& cell) {
    text += std::string(widths[column] - cell.size(), ' ') + cell + " ";
  };
  size_t name_width = 16;
  for (const SummaryRow& row : rows) name_width = std::max(name_width, row.strategy.size());
  const int strategy = static_cast<int>(name_width);
  char line[256];
  for (size_t i = 0; i < widths.size(); ++i) add(i, rows.front().place[i].first);
  std::snprintf(line, sizeof(line), " %-*s %9s %9s %9s %9s %9s  %s\n", strategy, "strategy", "step",
                "forward", "backward", "sync", "optimizer", "check");
  text += line;
  const auto time = [](int64_t ns) { return ns < 0 ? "-" : ApproximateDuration(static_cast<double>(ns)); };
  for (const SummaryRow& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) add(i, row.place[i].second);
    std::snprintf(line, sizeof(line), " %-*s %9s %9s %9s %9s %9s  %s\n", strategy, row.strategy.c_str(),
                  time(row.step_ns).c_str(), time(row.forward_ns).c_str(), time(row.backward_ns).c_str(),
                  time(row.sync_exposed_ns).c_str(), time(row.optimizer_ns).c_str(), row.verdict.c_str());
    text += line;
  }
  return text;
}

}  // namespace gradsync::bench
