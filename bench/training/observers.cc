#include "bench/training/observers.h"

#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "bench/launch/progress.h"
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
  void OnStep(const StepEvent& event) override { Show(event.stepper, ""); }
  void OnChecked(const Stepper& stepper, const Fields& /*checks*/) override { Show(stepper, ", check"); }
  void OnEnd() override { progress_.reset(); }

 private:
  void Show(const Stepper& stepper, const char* what) {
    progress_->Step(Join(stepper.cell().name, ", ", stepper.variant().name(), what));
  }

  const int64_t total_steps_;
  const bool visible_;
  std::optional<Progress> progress_;  // from begin to end
};

class SummaryObserver : public Observer {
 public:
  explicit SummaryObserver(std::string out) : out_(std::move(out)) {}

  void OnTimed(const Stepper& stepper, const std::vector<int64_t>& steps_ns, Record& /*more*/) override {
    steps_ns_[&stepper] = steps_ns;
  }
  void OnChecked(const Stepper& stepper, const Fields& checks) override {
    summary_.Add(stepper.cell().name, stepper.variant(), steps_ns_.extract(&stepper).mapped(), checks);
  }
  void OnEnd() override {
    std::printf("%sMeans of the slowest rank. Records: %s\n", summary_.ToString().c_str(), out_.c_str());
  }

 private:
  const std::string out_;
  Summary summary_;
  std::map<const Stepper*, std::vector<int64_t>> steps_ns_;  // of those that are not checked yet
};

class ProfileObserver : public Observer {
 public:
  ProfileObserver(const TrainingOptions& options, Peak peak_flops, Trainer& trainer)
      : options_(options), trainer_(trainer), peak_flops_(std::move(peak_flops)) {}

  void OnStep(const StepEvent& event) override {
    if (event.operations == nullptr) return;
    const auto [profile, is_new] = profiles_.try_emplace(&event.stepper, peak_flops_, options_.optimizer);
    profile->second.Add(event.result.marks, event.operations->computed(), event.operations->ops());
  }

  void OnTimed(const Stepper& stepper, const std::vector<int64_t>& steps_ns, Record& more) override {
    const auto profile = profiles_.find(&stepper);
    if (profile == profiles_.end()) return;
    profile->second.WriteTo(more);
    text_ += Join("\n", stepper.variant().name(), ", ", stepper.cell().name, ", mean of ", steps_ns.size(),
                  " steps:\n", profile->second.ToString());
    profiles_.erase(profile);
  }

  void OnEnd() override {
    if (trainer_.group().rank() == 0) std::fputs(text_.c_str(), stdout);
  }

 private:
  const TrainingOptions& options_;
  Trainer& trainer_;
  const Peak peak_flops_;
  std::map<const Stepper*, StepProfile> profiles_;  // of those that take turns
  std::string text_;
};

class TraceObserver : public Observer {
 public:
  TraceObserver(std::string path, const TrainingOptions& options, Trainer& trainer)
      : path_(std::move(path)), trainer_(trainer), log_(trainer.group().rank()) {
    std::string origin = Join(options.model, ", ", trainer.group().size(), " ranks");
    for (const std::string& backend : options.GroupBackends()) origin += ", " + backend;
    std::vector<std::string> names;
    for (const Variant& variant : options.variants) names.push_back(variant.name());
    log_.SetOrigin(std::move(origin), std::move(names));
  }

  void OnStep(const StepEvent& event) override {
    if (event.operations == nullptr) return;
    const Fields& config = event.stepper.cell().config;
    log_.AddStep({event.stepper.variant().name(), event.sample, config.IntOr("batch_size", 0),
                  config.IntOr("seq_len", 0)},
                 event.result.marks, event.operations->ops(), event.stepper.collectives());
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

// With those of checks; of a run that is given a time, as if it took as many as without one.
int64_t TotalSteps(const TrainingOptions& options, const TrainingTask& task) {
  return std::ssize(task.cells) * std::ssize(options.variants) * (options.warmup_steps + options.steps + 1);
}

}  // namespace

std::vector<std::unique_ptr<Observer>> MakeObservers(const TrainingOptions& options, const TrainingTask& task,
                                                     const std::string& out, const std::string& run_id,
                                                     const Peak& peak_flops, Trainer& trainer) {
  const int rank = trainer.group().rank();
  const std::string path = Join(out, "/ddp.", run_id, ".rank", rank);
  std::vector<std::unique_ptr<Observer>> observers;
  observers.push_back(std::make_unique<ProgressObserver>(TotalSteps(options, task), rank == 0));
  if (rank == 0) observers.push_back(std::make_unique<SummaryObserver>(out));
  if (options.profile) observers.push_back(std::make_unique<ProfileObserver>(options, peak_flops, trainer));
  if (options.trace)
    observers.push_back(std::make_unique<TraceObserver>(path + ".trace.json", options, trainer));
  return observers;
}

}  // namespace gradsync::bench
