#include "bench/ddp_record.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/units.h"
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

void SetDdpConfig(const DdpOptions& options, const Cell& cell, const std::string& strategy, Fields& config) {
  const model::TransformerConfig model = options.model_config();
  config.Set("model", options.model);
  config.Set("strategy", strategy);
  SetRankConfig(options.ranks, options.backend, config);
  config.Set("dtype", options.dtype);
  config.Set("batch_size", cell.batch_size);
  config.Set("seq_len", cell.seq_len);
  config.Set("bucket_bytes", options.bucket_bytes);
  config.Set("order", options.order);
  config.Set("warmup_steps", options.warmup_steps);
  config.Set("steps", options.steps);
  config.Set("optimizer", options.optimizer);
  config.Set("learning_rate", options.learning_rate);
  config.Set("num_layers", model.num_layers);
  config.Set("d_model", model.d_model);
  config.Set("d_ff", model.d_ff);
  config.Set("num_heads", model.num_heads);
  config.Set("vocab_size", model.vocab_size);
  config.Set("data", !options.batch_file.empty() ? "batch_file"
                     : !options.corpus.empty()   ? "corpus"
                                                 : "uniform");
  config.Set("weights", options.weights.empty() ? "random" : "file");
  config.Set("traced", options.trace || options.profile);
}

void SetDdpSamples(const StrategySamples& samples, Record& record) {
  for (const Series& series : kSeries) {
    std::vector<int64_t>& values = record.samples[series.name];
    for (const StepResult& step : samples.steps) values.push_back(series.of(step));
  }
  record.samples["position"] = samples.positions;
  record.facts.Set("allocations_in_timed_steps", samples.allocations);
}

void SetDdpChecks(const StrategyCheck& check, Fields& checks) {
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

SummaryRow Summarize(const Cell& cell, const std::string& strategy, const StrategySamples& samples,
                     std::string verdict) {
  const auto median = [&](size_t i) { return Median(samples.steps, kSeries[i].of); };
  return {cell, strategy, median(0), median(1), median(2), median(3), median(4), std::move(verdict)};
}

std::string FormatSummary(const std::vector<SummaryRow>& rows) {
  std::string text;
  char line[256];
  std::snprintf(line, sizeof(line), "%5s %8s  %-15s %9s %9s %9s %9s %9s  %s\n", "batch", "sequence",
                "strategy", "step", "forward", "backward", "sync", "optimizer", "check");
  text += line;
  const auto time = [](int64_t ns) { return ApproximateDuration(static_cast<double>(ns)); };
  for (const SummaryRow& row : rows) {
    std::snprintf(line, sizeof(line), "%5lld %8lld  %-15s %9s %9s %9s %9s %9s  %s\n",
                  static_cast<long long>(row.cell.batch_size), static_cast<long long>(row.cell.seq_len),
                  row.strategy.c_str(), time(row.step_ns).c_str(), time(row.forward_ns).c_str(),
                  time(row.backward_ns).c_str(), time(row.sync_exposed_ns).c_str(),
                  time(row.optimizer_ns).c_str(), row.verdict.c_str());
    text += line;
  }
  return text;
}

}  // namespace gradsync::bench
