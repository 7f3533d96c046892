#include "bench/records/step_times.h"

namespace gradsync::bench {

StepTimes::Part StepTimes::computed() const {
  return forward && backward ? Part(*forward + *backward) : std::nullopt;
}

StepTimes::Part StepTimes::worked() const {
  return computed() ? Part(*computed() + begin_step.value_or(0) + hooks.value_or(0)) : std::nullopt;
}

StepTimes::Part StepTimes::averaged() const {
  return worked() && waits() ? Part(*worked() + *waits()) : std::nullopt;
}

StepTimes::Part StepTimes::step() const {
  if (!forward || !after_forward() || !optimizer) return std::nullopt;
  return begin_step.value_or(0) + *forward + *after_forward() + *optimizer;
}

StepTimes::Part StepTimes::waits() const {
  return sync_wait ? Part(forward_wait.value_or(0) + backward_wait.value_or(0) + *sync_wait) : std::nullopt;
}

StepTimes::Part StepTimes::after_forward() const {
  return backward && waits() ? Part(*backward + hooks.value_or(0) + *waits()) : backward_and_sync;
}

StepTimes MeanOf(std::span<const StepTimes> steps) {
  StepTimes mean;
  for (const auto& [name, part] : kStepParts) {
    int64_t sum_ns = 0;
    for (const StepTimes& step : steps) sum_ns += (step.*part).value_or(0);
    if (steps.front().*part) mean.*part = sum_ns / std::ssize(steps);
  }
  return mean;
}

void AddTo(SampleSeries& samples, const StepTimes& times) {
  for (const auto& [name, part] : kStepParts) {
    if (times.*part) samples[name].push_back(*(times.*part));
  }
}

StepTimes TimesAt(const SampleSeries& samples, size_t i) {
  StepTimes times;
  for (const auto& [name, part] : kStepParts) {
    const SampleSeries::Values* const values = samples.Find(name);
    if (values != nullptr && i < values->size()) times.*part = (*values)[i];
  }
  return times;
}

}  // namespace gradsync::bench
