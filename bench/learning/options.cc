#include "bench/learning/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kBytes = 256;  // size of the vocabulary
constexpr int64_t kMax = 1'000'000;

std::optional<LearningRateSchedule> ParseSchedule(std::string_view text) {
  const std::vector<std::string> parts = SplitCommas(text);
  LearningRateSchedule schedule{.is_cosine = parts.front() == "cosine"};
  if (!schedule.is_cosine && parts.front() != "constant") return std::nullopt;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> option = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    const auto& [name, value] = option;
    if (name == "warmup") {
      schedule.warmup_steps = ParseInteger(value).value_or(-1);
    } else if (name != "min" || !schedule.is_cosine || !absl::SimpleAtod(value, &schedule.min)) {
      return std::nullopt;
    }
  }
  if (schedule.warmup_steps < 0 || !(schedule.min >= 0 && schedule.min <= 1)) return std::nullopt;
  return schedule;
}

}  // namespace

double LearningRateSchedule::ShareIn(int64_t step, int64_t num_steps) const {
  const auto i = static_cast<double>(step), w = static_cast<double>(warmup_steps);
  if (i < w) return (i + 1) / (w + 1);
  if (!is_cosine) return 1;
  return min +
         (1 - min) * (1 + std::cos(std::numbers::pi * (i - w) / (static_cast<double>(num_steps) - w))) / 2;
}

std::string LearningRateSchedule::ToString() const {
  return Join(is_cosine ? "cosine" : "constant", warmup_steps > 0 ? Join(",warmup=", warmup_steps) : "",
              min > 0 ? Join(",min=", min) : "");
}

Kind<LearningRateSchedule> LearningRateSchedules() {
  return {"constant[,warmup=STEPS] or cosine[,warmup=STEPS][,min=SHARE]", ParseSchedule,
          [](const LearningRateSchedule& schedule) { return schedule.ToString(); }};
}

// With these defaults, five seeds of all strategies take some minutes on two cores.
ConvergenceOptions::ConvergenceOptions() {
  training.learns = true;
  training.num_layers = 2;
  training.d_model = 64;
  training.d_ff = 192;
  training.num_heads = 4;
  training.vocab_size = kBytes;
  training.seq_lens = {64};
  training.batch_sizes = {8};
  training.steps = 400;
  training.learning_rate = 3e-3;
}

void ConvergenceOptions::AddTo(FlagTable& flags) {
  training.AddTo(flags);
  flags.ShowFirst({"variants", "strategies", "corpus", "steps", "seeds", "learning_rate", "batch_size",
                   "seq_len", "world_size", "out"});
  flags.BeginGroup("Schedule");
  flags.Add(
      "lr_schedule", &lr_schedule, LearningRateSchedules(),
      "Changes the learning rate in this way.\nwarmup: it grows in the first STEPS. cosine: it then falls "
      "until the last step, to min=SHARE of --learning_rate, else to 0.");
  flags.Add(
      "decay", &decays_vectors, OneOf<bool>({{"all", true}, {"matrices", false}}),
      "Applies AdamW's weight decay to these parameters.\nall: all parameters. matrices: matrices only.");
  flags.BeginGroup("Trials");
  flags.Add(
      "seeds", &seeds, Integer(1, 1000),
      "Trains every variant with this number of seeds.\nA seed decides the initial weights and the order of "
      "the text. Every variant "
      "trains once with each.");
  flags.Add("steps", &training.steps, Integer(1, kMax),
            "Takes this number of steps with each variant and each seed.");
  flags.Add(
      "evaluate_every", &evaluate_every, Integer(1, kMax),
      "Measures the loss on held-out text each time after this number of steps.\nA multiple of all periods. "
      "Default: "
      "about 20 times in all.");
  flags.Add("held_out_windows", &held_out_windows, Integer(1, kMax),
            "Measures the loss on this number of sequences of held-out text, at even distances.");
  flags.Add("text_bytes", &text_bytes, Bytes(),
            "Reads at most this number of bytes of a text.\nOf a directory, whole files are read until this "
            "number is reached.");
  flags.Add(
      "tune", &tune, TunedOptions(),
      "Tries all combinations of these values with every variant that takes the options.\nVariants that set "
      "such an option keep it. Then each variant trains with its best setting, on other seeds.");
  flags.Add("tune_seeds", &tune_seeds, Integer(1, 1000),
            "Tries each setting of --tune with this number of seeds.");
}

ConvergencePlan::ConvergencePlan(const ConvergenceOptions& given, const FlagTable& flags)
    : options(given), training(given.training, flags) {
  Require(training.batch_sizes.size() == 1, "--batch_size: expected one");
  Require(training.seq_lens.size() == 1, "--seq_len: expected one");
  Require(training.accumulation_steps.size() == 1, "--accumulation_steps: expected one");
  Require(std::ranges::count(training.optimizers, OptimizerKind::kSgd) == 0 || !flags.given("decay"),
          "--decay: sgd has no weight decay");
  const LearningRateSchedule& schedule = options.lr_schedule;
  Require(!schedule.is_cosine || schedule.warmup_steps < training.steps, "--lr_schedule: found ",
          schedule.warmup_steps, " steps of warmup, expected fewer than the ", training.steps, " of --steps");
  if (options.tune.empty()) flags.Refuse({"tune_seeds"}, "needs --tune");
  for (const TunedOption& option : options.tune)
    flags.Refuse({option.name}, "every variant takes it from --tune, or names its own");
  AddSettings();
  CheckPeriods();
}

// By default, lossy strategies average exactly in the first tenth of the steps.
void ConvergencePlan::AddSettings() {
  const size_t element_bytes = SizeOf(training.gradient_type());
  for (const TunedOption& option : options.tune) {
    const bool is_tried = std::ranges::any_of(
        training.variants, [&](const TrainingVariant& variant) { return IsOpen(variant, option.name); });
    Require(is_tried, "--tune: no variant is to be tried with ", option.name);
  }
  for (const TrainingVariant& variant : training.variants) {
    const std::string start(variant.traits->OptionFor(ddp::Option::Role::kStart));
    std::vector<TunedOption> tried = options.tune;
    if (!start.empty() && std::ranges::count(tried, start, &TunedOption::name) == 0)
      tried.push_back({start, {Join(std::max<int64_t>(1, training.steps / 10))}});
    settings.push_back(ListSettings(variant, tried, element_bytes));
    for (const TrainingVariant& setting : settings.back()) {
      Require(ddp::StartOf(*setting.traits, setting.strategy_options()) < training.steps,
              "--steps=", training.steps, ": ", setting.name(), " would send every step exactly");
    }
  }
}

// Within a period replicas differ, so there is no single model to evaluate.
void ConvergencePlan::CheckPeriods() {
  int64_t period = 1;  // number of steps after which the replicas of all variants are equal
  std::vector<TrainingVariant> all;
  for (const auto& tried : settings) all.insert(all.end(), tried.begin(), tried.end());
  for (const TrainingVariant& variant : all) {
    if (period <= kMax)
      period = std::lcm(period, variant.period());  // A longer period is never reached, and may overflow.
  }
  const auto next_whole = [&](int64_t steps) { return (steps + period - 1) / period * period; };
  const auto check = [&](const char* flag, int64_t steps) {
    for (const TrainingVariant& variant : all) {
      Require(steps % variant.period() == 0, "--", flag, "=", steps, ": ends within a period of ",
              variant.name(), ", expected ", next_whole(steps), " or another multiple of ", period);
    }
  };
  check("steps", training.steps);
  if (options.evaluate_every) check("evaluate_every", *options.evaluate_every);
  evaluated_every = options.evaluate_every.value_or(next_whole(std::max<int64_t>(1, training.steps / 20)));
}

}  // namespace gradsync::bench
