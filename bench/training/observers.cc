#include "bench/training/observers.h"

#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "bench/launch/progress.h"
#include "bench/timing/op_cost.h"
#include "bench/timing/step_profile.h"
#include "bench/timing/trace_log.h"
#include "bench/training/summary.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

class ProgressObserver : public Observer {
 public:
  ProgressObserver(int64_t total_steps, bool visible) : total_steps_(total_steps), visible_(visible) {}

  void OnBegin() override { progress_.emplace(total_steps_, visible_); }
  void OnStep(const StepEvent& event) override { Show(event.variant, ""); }
  void OnChecked(const Variant& variant, const Fields& /*checks*/) override { Show(variant, ", check"); }
  void OnEnd() override { progress_.reset(); }

 private:
  void Show(const Variant& variant, const char* what) {
    progress_->Step(Join(variant.the_case().name(), ", ", variant.spec().name, what));
  }

  const int64_t total_steps_;
  const bool visible_;
  std::optional<Progress> progress_;  // from begin to end
};

class SummaryObserver : public Observer {
 public:
  explicit SummaryObserver(std::string out) : out_(std::move(out)) {}

  void OnTimed(const Variant& variant, const StepTimes& times, Record& /*more*/) override {
    places_[&variant] = summary_.size();
    summary_.Add(variant.the_case(), variant.spec(), times);
  }
  void OnChecked(const Variant& variant, const Fields& checks) override {
    summary_.SetVerdict(places_.at(&variant), VerdictWord(checks, variant.spec().drifts()));
  }
  void OnEnd() override {
    std::printf("%sMeans of the slowest rank. Records: %s\n", summary_.ToString().c_str(), out_.c_str());
  }

 private:
  const std::string out_;
  Summary summary_;
  std::map<const Variant*, size_t> places_;  // in it
};

class ProfileObserver : public Observer {
 public:
  ProfileObserver(const TrainingOptions& options, const Peak& peak_flops, Trainer& trainer)
      : options_(options), trainer_(trainer), peaks_{peak_flops, {}} {}

  // On all ranks at once, because they compute at once.
  void OnBegin() override {
    trainer_.group().Barrier();
    peaks_.bandwidth = MeasureBandwidth(trainer_.device());
  }

  void OnStep(const StepEvent& event) override {
    if (event.operations == nullptr) return;
    const auto [profile, is_new] = profiles_.try_emplace(
        &event.variant, peaks_, options_.optimizer, OptimizerCost(options_.optimizer, trainer_.params()));
    profile->second.Add(event.result.marks, event.operations->computed(), event.operations->ops());
  }

  void OnTimed(const Variant& variant, const StepTimes& times, Record& more) override {
    const auto profile = profiles_.find(&variant);
    if (profile == profiles_.end()) return;
    profile->second.WriteTo(more);
    text_ += Join("\n", variant.spec().name, ", ", variant.the_case().name(), ", mean of ",
                  times.front().size(), " steps:\n", profile->second.ToString());
    profiles_.erase(profile);
  }

  void OnEnd() override {
    if (trainer_.group().rank() == 0) std::fputs(text_.c_str(), stdout);
  }

 private:
  const TrainingOptions& options_;
  Trainer& trainer_;
  Peaks peaks_;
  std::map<const Variant*, StepProfile> profiles_;  // of those that take turns
  std::string text_;
};

class TraceObserver : public Observer {
 public:
  TraceObserver(std::string path, std::string origin, const std::vector<std::string>& strategies,
                Trainer& trainer)
      : path_(std::move(path)), trainer_(trainer), log_(trainer.group().rank()) {
    log_.SetOrigin(std::move(origin), strategies);
  }

  void OnStep(const StepEvent& event) override {
    if (event.operations == nullptr) return;
    const Fields& config = event.variant.the_case().config;
    log_.AddStep(
        {event.variant.spec().name, event.sample, config.IntOr("batch_size", 0), config.IntOr("seq_len", 0)},
        event.result.marks, event.operations->ops(), trainer_.group().entries());
  }

  void OnEnd() override {
    log_.Write(path_);
    if (trainer_.group().rank() == 0) std::printf("Trace: %s\n", path_.c_str());
  }

 private:
  const std::string path_;
  Trainer& trainer_;
  TraceLog log_;
};

// "tiny, 2 ranks, gloo"
std::string Origin(const TrainingTask& task, int num_ranks, const std::string& backend) {
  const std::string model = task.cases.front().config.StringOr("model", "");
  return Join(model, model.empty() ? "" : ", ", num_ranks, num_ranks == 1 ? " rank, " : " ranks, ", backend);
}

// With those of checks.
int64_t TotalSteps(const TrainingOptions& options, const TrainingTask& task) {
  int64_t num_variants = 0;
  for (const Case& the_case : task.cases) num_variants += static_cast<int64_t>(the_case.variants.size());
  const int64_t steps = options.precision ? options.max_steps : options.steps;
  return num_variants * (options.warmup_steps + steps + 1);
}

}  // namespace

std::vector<std::unique_ptr<Observer>> MakeObservers(const TrainingOptions& options, const TrainingTask& task,
                                                     const std::string& out, const std::string& run_id,
                                                     const Peak& peak_flops, Trainer& trainer) {
  const int rank = trainer.group().rank();
  const std::string path = Join(out, "/", task.experiment, ".", run_id, ".rank", rank);
  std::vector<std::unique_ptr<Observer>> observers;
  observers.push_back(std::make_unique<ProgressObserver>(TotalSteps(options, task), rank == 0));
  if (rank == 0) observers.push_back(std::make_unique<SummaryObserver>(out));
  if (options.profile) observers.push_back(std::make_unique<ProfileObserver>(options, peak_flops, trainer));
  if (options.trace) {
    observers.push_back(std::make_unique<TraceObserver>(path + ".trace.json",
                                                        Origin(task, trainer.group().size(), options.backend),
                                                        options.strategies, trainer));
  }
  return observers;
}

}  // namespace gradsync::bench
