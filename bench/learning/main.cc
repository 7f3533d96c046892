// The program //bench:convergence. Each variant trains a model from each seed, one after the other in an
// order drawn for each seed, and is compared by its loss on held-out text. Every trial is a record of each
// rank, written when the trial has ended.

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/launch/rank_program.h"
#include "bench/learning/corpus.h"
#include "bench/learning/options.h"
#include "bench/learning/trial.h"
#include "bench/records/record.h"
#include "bench/timing/schedule.h"
#include "bench/training/memory.h"
#include "model/base/error.h"
#include "model/base/flags.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kNotMeasured = -1;

// The loss that is recorded for an infinite or NaN loss.
constexpr double kDiverged = 1e6;

int64_t Nano(double nats) { return std::llround(1e9 * (std::isfinite(nats) ? nats : kDiverged)); }

class ConvergenceJob : public RankJob {
 public:
  ConvergenceJob(const ConvergencePlan& plan, Rank& rank, Corpus corpus)
      : plan_(plan), rank_(rank), corpus_(std::move(corpus)) {
    rank.Join(plan.training.GroupBackends());
    Record record;
    record.experiment = "convergence";
    rank.SetRecords(std::move(record));
  }

  void Run() override {
    rank_.Print(absl::StrFormat("%s, %d bytes to train on, %d held out, sha256 %s\n", corpus_.name,
                                corpus_.training.size(), corpus_.held_out.size(),
                                corpus_.sha256.substr(0, 12)));
    int64_t num_trials = plan_.options.seeds * std::ssize(plan_.settings);
    for (const auto& settings : plan_.settings) {
      if (settings.size() > 1) num_trials += plan_.options.tune_seeds * std::ssize(settings);
    }
    rank_.Expect(num_trials * plan_.training.steps);
    std::vector<TrainingVariant> variants;
    for (const auto& settings : plan_.settings)
      variants.push_back(settings.size() > 1 ? Choose(settings) : settings.front());
    for (int64_t i = 0; i < plan_.options.seeds; ++i) {
      for (const int number :
           RoundOrder(static_cast<int>(variants.size()), i, static_cast<uint64_t>(rank_.seed())))
        Train(variants[static_cast<size_t>(number)], rank_.seed() + i, /*is_tuning=*/false);
    }
    rank_.Conclude("");
  }

 private:
  // Returns the setting with the lowest mean of held-out losses, on seeds that trials do not use.
  TrainingVariant Choose(const std::vector<TrainingVariant>& settings) {
    double least = std::numeric_limits<double>::infinity();
    const TrainingVariant* best = nullptr;
    for (const TrainingVariant& setting : settings) {
      double sum = 0;
      for (int64_t i = 0; i < plan_.options.tune_seeds; ++i) {
        const int64_t seed = rank_.seed() + plan_.options.seeds + i;
        sum += Train(setting, seed, /*is_tuning=*/true);
      }
      if (!(sum < least)) continue;
      least = sum;
      best = &setting;
    }
    if (best == nullptr)
      throw std::runtime_error(Join(settings.front().name(), ": no setting of --tune learns"));
    rank_.Print(absl::StrFormat("Best of %d settings: %s\n", settings.size(), best->name()));
    return *best;
  }

  // Returns the held-out loss after the last step.
  double Train(const TrainingVariant& variant, int64_t seed, bool is_tuning) {
    Trial trial(plan_, variant, seed, corpus_, rank_.device(), rank_.own(), rank_.Of(variant.over()));
    Record record = RecordOf(variant, seed, trial);
    std::vector<double> losses;
    double sent_bytes = 0, held_out = 0;
    while (trial.num_steps() < plan_.training.steps) {
      const TrialStep step = trial.Step();
      record.samples["step_ns"].push_back(*step.result.times.step());
      losses.push_back(step.loss);
      sent_bytes += step.sent_bytes;
      const bool is_last = trial.num_steps() == plan_.training.steps;
      const bool is_judged = is_last || trial.num_steps() % plan_.evaluated_every == 0;
      if (is_judged) held_out = trial.MeasureHeldOutLoss();
      record.samples["held_out_loss_nano"].push_back(is_judged ? Nano(held_out) : kNotMeasured);
      rank_.Step(Join(variant.name(), ", seed ", seed));
    }
    for (const double loss : rank_.Reduce(losses, comm::ReduceOp::kMean))
      record.samples["training_loss_nano"].push_back(Nano(loss));
    record.facts.Set("sent_bytes_per_step", Value(sent_bytes / static_cast<double>(losses.size())));
    if (is_tuning) record.facts.Set("tuning", Value(true));
    rank_.DescribeThrottling(record.facts);
    rank_.writer().Begin(record);
    rank_.writer().WriteToDisk();
    return held_out;
  }

  Record RecordOf(const TrainingVariant& variant, int64_t seed, const Trial& trial) const {
    const TrainingPlan& training = plan_.training;
    const model::TransformerConfig model = training.transformer_config();
    Record record = rank_.RecordOf(variant.over());
    record.time_utc = NowUtc();
    variant.Describe(record);
    ConfigFields& config = record.config;
    config.Set("model", training.model);
    config.Set("dtype", Name(training.dtype));
    config.Set("batch_size", plan_.batch_size());
    if (plan_.accumulation_steps() > 1) config.Set("accumulation_steps", plan_.accumulation_steps());
    config.Set("seq_len", plan_.seq_len());
    config.Set("num_layers", model.num_layers);
    config.Set("d_model", model.d_model);
    config.Set("d_ff", model.d_ff);
    config.Set("num_heads", model.num_heads);
    // If variants differ in it, it is an option of theirs.
    if (!variant.optimizer()) config.Set("optimizer", Name(training.optimizers.front()));
    config.Set("learning_rate", training.learning_rate);
    const LearningRateSchedule& schedule = plan_.options.lr_schedule;
    if (schedule != LearningRateSchedule()) config.Set("lr_schedule", schedule.ToString());
    if (!plan_.options.decays_vectors) config.Set("decay", "matrices");
    config.Set("text", corpus_.name);
    config.Set("text_sha256", corpus_.sha256);
    config.Set("training_steps", training.steps);
    config.Set("evaluate_every", plan_.evaluated_every);
    config.Set("held_out_windows", plan_.options.held_out_windows);
    config.Set("trial_seed", seed);
    record.facts.Set("num_parameters", trial.trainer().num_elements());
    record.facts.Set("tokens_per_step", trial.batch_positions() * rank_.world().size);
    return record;
  }

  const ConvergencePlan& plan_;
  Rank& rank_;
  const Corpus corpus_;
};

int RunConvergenceProgram(int argc, char** argv) {
  ConvergenceOptions options;
  FlagTable flags("convergence",
                  "Trains a small language model on text with each variant, from several seeds, and measures "
                  "how its loss\non held-out text falls over steps, over seconds and over bytes sent.\n"
                  "  ./bazelw run //bench:convergence -- --variants=naive,core,none --out=DIR\n"
                  "  ./bazelw run //bench:convergence -- --corpus=FILE --steps=2000 --out=DIR");
  options.AddTo(flags);
  std::optional<Corpus> corpus;  // read once in each process
  std::optional<const ConvergencePlan> plan;
  const auto make_plan = [&](const comm::World&) {
    return plan.emplace(options, flags).training.GroupBackends();
  };
  const auto read = [&] { return ReadCorpus(options.training.corpus, options.text_bytes, plan->seq_len()); };
  const auto check = [&](const comm::World& world) {
    CheckMemoryOfThisHost(plan->training, world);
    corpus = read();  // The corpus is read before ranks start, because all ranks would print the same error.
  };
  const auto prepare = [&](Rank& rank) {
    return std::make_unique<ConvergenceJob>(*plan, rank, corpus ? *std::move(corpus) : read());
  };
  return RunRankProgram(argc, argv,
                        {"convergence", flags, options.training.ranks, make_plan, check, prepare});
}

}  // namespace
}  // namespace gradsync::bench

int main(int argc, char** argv) { return gradsync::bench::RunConvergenceProgram(argc, argv); }
