#include "bench/training/record.h"

#include "absl/time/time.h"
#include "bench/launch/rank_main.h"

namespace gradsync::bench {

void SetTrainingConfig(const TrainingOptions& options, const Variant& variant, Record& record) {
  Fields& config = record.config;
  variant.Describe(record);
  SetRankConfig(options.ranks, variant.backend, config);
  config.Set("dtype", options.tf32 ? "tf32" : options.dtype);
  config.Set("order", options.order);
  config.Set("warmup_steps", options.warmup_steps);
  if (options.time) {
    config.Set("time", absl::FormatDuration(absl::FromChrono(*options.time)));
  } else {
    config.Set("steps", options.steps);
  }
  if (options.precision) config.Set("precision", Value(*options.precision));
  config.Set("optimizer", options.optimizer);
  config.Set("learning_rate", options.learning_rate);
  config.Set("traced", options.trace || options.profile || options.nvtx || options.check_gradients);
}

Record SamplesOf(const StepResult& step, int64_t position) {
  Record record;
  const auto add = [&](const char* name, int64_t value) { record.samples[name] = {value}; };
  const int64_t begin_step_ns = step.begin_step_ns.value_or(0), hooks_ns = step.hooks_ns.value_or(0);
  add("step_ns", step.marks.step_ns());
  add("forward_ns", step.marks.forward_ns() - begin_step_ns);
  add("backward_and_sync_ns", step.marks.backward_and_sync_ns());
  add("optimizer_ns", step.marks.optimizer_ns());
  add("position", position);
  if (step.tells_sync) {
    add("backward_ns", step.marks.backward_ns() - hooks_ns);
    add("sync_exposed_ns", step.marks.sync_exposed_ns());
  }
  if (step.begin_ns) add("begin_ns", *step.begin_ns);
  if (step.begin_step_ns) add("begin_step_ns", begin_step_ns);
  if (step.hooks_ns) add("hooks_ns", hooks_ns);
  if (step.comm_busy_ns) add("comm_busy_ns", *step.comm_busy_ns);
  if (step.cpu) {
    add("compute_cpu_ns", step.cpu->compute_ns);
    add("communication_cpu_ns", step.cpu->communication_ns);
  }
  if (!step.moments.ready_ns.empty()) {
    record.moments = {{"ready_ns", step.moments.ready_ns},
                      {"issued_ns", step.moments.issued_ns},
                      {"started_ns", step.moments.started_ns},
                      {"ended_ns", step.moments.ended_ns}};
  }
  return record;
}

void SetChecks(const Verdict& verdict, Fields& checks) {
  checks.Set("grad_rel_error", Value(verdict.grad_rel_error));
  checks.Set("param_rel_error", Value(verdict.param_rel_error));
  checks.Set("grads_equal", Value(verdict.grads_equal()));
  checks.Set("params_equal", Value(verdict.params_equal()));
  checks.Set("replicas_equal", Value(verdict.replicas_equal));
  checks.Set("tolerance", Value(verdict.tolerance));
  checks.Set("worst_grad", verdict.worst_grad);
  checks.Set("worst_param", verdict.worst_param);
}

}  // namespace gradsync::bench
