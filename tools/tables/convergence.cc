#include "tools/tables/convergence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/answers.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/fields.h"

namespace gradsync::tools {
namespace {

constexpr double kMega = 1e6;

// Samples, see bench/records/names.h. Losses are in 1e-9 nats, so a series, which divides by 1e9, is in nats.
constexpr SampleName kHeldOutLoss = "held_out_loss_nano", kStep = "step_ns";

// Returns the steps of a trial after which the loss was measured, with the loss in bits per byte.
std::map<double, double> JudgedSteps(const Measurement& measured) {
  std::map<double, double> judged;
  const Series* const losses = measured.Find(kHeldOutLoss);
  for (size_t i = 0; losses != nullptr && i < losses->max.size(); ++i) {
    if (losses->max[i] >= 0) judged[static_cast<double>(i) + 1] = losses->max[i] / std::numbers::ln2;
  }
  return judged;
}

// Adds the means over periods of a strategy that synchronises once per period. An incomplete last period is
// ignored.
void AddPeriods(const Measurement& measured, std::vector<double>* all) {
  const Series* const series = measured.Find(kStep);
  const auto period = static_cast<size_t>(std::max<int64_t>(1, measured.record.facts.IntOr("period", 1)));
  for (size_t end = period; series != nullptr && end <= series->max.size(); end += period)
    all->push_back(Mean(std::span(series->max).subspan(end - period, period)));
}

// Returns the mean over seeds with a 95 % interval by Student's t. `family` is the number of simultaneous
// intervals.
Estimate MeanOver(const std::vector<double>& values, size_t family) {
  Estimate mean{.value = Mean(values)};
  const auto count = static_cast<double>(values.size());
  if (values.size() < 2) return mean;
  const double error = PopulationStd(values) / std::sqrt(count - 1);
  const double margin = error > 0 ? error * StudentT(SidakCritical(family), count - 1) : 0;
  mean.interval = {mean.value - margin, mean.value + margin};
  return mean;
}

const LearningRow::Trial* TrialOf(const LearningRow& row, int64_t seed) {
  const auto found = std::ranges::find(row.trials, seed, &LearningRow::Trial::seed);
  return found == row.trials.end() || std::isnan(found->bits.back()) ? nullptr : &*found;
}

// Returns the number of steps after which the loss was first at most `target`, interpolated linearly between
// two measurements; NaN if it never was.
double StepsUntil(double target, const std::vector<double>& steps, const std::vector<double>& bits) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!(bits[i] <= target)) continue;
    if (i == 0 || std::isnan(bits[i - 1])) return steps[i];
    return steps[i - 1] + (steps[i] - steps[i - 1]) * (bits[i - 1] - target) / (bits[i - 1] - bits[i]);
  }
  return kNaN;
}

void CompareWithBaseline(const LearningRow& baseline, const std::vector<double>& steps, size_t family,
                         LearningRow* row) {
  std::vector<double> differences, base, reached;
  for (const LearningRow::Trial& trial : baseline.trials) {
    const LearningRow::Trial* const own = TrialOf(*row, trial.seed);
    if (own == nullptr || TrialOf(baseline, trial.seed) == nullptr) continue;
    base.push_back(trial.bits.back());
    differences.push_back(own->bits.back() - trial.bits.back());
    const double until = StepsUntil((1 + kReachedWithin) * trial.bits.back(), steps, own->bits);
    if (!std::isnan(until)) reached.push_back(until);
  }
  if (!base.empty() && reached.size() == base.size()) row->steps_to_reach = Mean(reached);
  if (row == &baseline) return;
  row->against_baseline = Scaled(MeanOver(differences, family), 1 / Mean(base));
  if (differences.size() >= kFewestSeeds)
    row->verdict = JudgeInterval(row->against_baseline.interval, kLossEqualWithin);
}

// Makes a setting. Every variant is one row, and each of its measurements is of one seed.
LearningSetting MakeSetting(const Group& group) {
  LearningSetting setting;
  std::set<double> steps;
  const auto is_tuning = [](const Measurement& measured) {
    return measured.record.facts.BoolOr("tuning", false);
  };
  for (const Measurement& measured : group) {
    const std::map<double, double> judged = JudgedSteps(measured);
    if (is_tuning(measured)) {
      auto tried = std::ranges::find(setting.tried, measured.variant(),
                                     [](const TriedSetting& other) { return other.measured->variant(); });
      if (tried == setting.tried.end()) tried = setting.tried.insert(tried, {&measured, {}});
      if (!judged.empty()) tried->bits.push_back(judged.rbegin()->second);
      continue;
    }
    for (const auto& [step, bits] : judged) steps.insert(step);
    if (std::ranges::count(setting.rows, measured.variant(), &LearningRow::variant) == 0)
      setting.rows.emplace_back().measured = &measured;
  }
  setting.steps.assign(steps.begin(), steps.end());
  for (LearningRow& row : setting.rows) {
    std::vector<double> all_steps, final_bits;
    for (const Measurement& measured : group) {
      if (is_tuning(measured) || measured.variant() != row.variant()) continue;
      AddPeriods(measured, &all_steps);
      const std::map<double, double> judged = JudgedSteps(measured);
      std::vector<double> bits;
      for (const double step : setting.steps) bits.push_back(judged.contains(step) ? judged.at(step) : kNaN);
      if (!bits.empty() && !std::isnan(bits.back())) final_bits.push_back(bits.back());
      row.trials.push_back({measured.record.config.IntOr("trial_seed", 0), std::move(bits)});
    }
    row.step_s = Median(all_steps);
    row.bytes_per_step = row.measured->record.facts.DoubleOr("sent_bytes_per_step", kNaN);
    row.final_bits = MeanOver(final_bits, 1);
  }
  if (const LearningRow* const baseline = setting.baseline()) {
    for (LearningRow& row : setting.rows)
      CompareWithBaseline(*baseline, setting.steps, setting.rows.size() - 1, &row);
  }
  return setting;
}

struct LearningView {
  const LearningSetting& setting;
  const LearningRow& row;
};

enum Section { kHeadline = 1, kDetails };

std::vector<Field<LearningView>> FieldsOfTable(bool is_reached) {
  const int if_reached = is_reached ? kHeadline : kDetails;
  using View = LearningView;
  const auto of_row = [](auto member) {
    return [member](const View& view) { return std::invoke(member, view.row); };
  };
  const auto text = [](bench::ConfigName name) {
    return [name](const View& view) { return view.row.measured->record.config.StringOr(name, ""); };
  };
  std::vector<Field<View>> fields = {
      {{.name = "variant"}, of_row(&LearningRow::variant)},
      {{.name = "bits_per_byte", .header = "bits/byte", .section = kHeadline},
       [](const View& view) { return view.row.final_bits.value; }},
      {{.name = "delta (%)", .kind = Kind::kPercent, .section = kHeadline},
       [](const View& view) { return Scaled(view.row.against_baseline, 100); }},
      {{.name = "time (s)", .digits = 3, .section = if_reached},
       [](const View& view) { return view.row.steps_to_reach * view.row.step_s; }},
      {{.name = "sent (MB)", .digits = 3, .section = if_reached},
       [](const View& view) { return view.row.steps_to_reach * view.row.bytes_per_step / kMega; }},
      {{.name = "settings", .section = kHeadline, .said_once = true},
       [](const View& view) -> std::string {
         if (view.row.measured->record.variant.tuned) return "tuned";
         // A strategy that averages gradients exactly has the losses of `naive`.
         return view.row.measured->is_exact() ? "" : "untuned";
       }},
      {{.name = "steps", .kind = Kind::kInteger, .section = kDetails},
       [](const View& view) { return std::round(view.row.steps_to_reach); }},
      {{.name = "seeds_bits_per_byte", .section = kDetails}, of_row(&LearningRow::final_bits)},
      {{.name = "step (s)", .section = kDetails}, of_row(&LearningRow::step_s)},
      {{.name = "sent_per_step (MB)", .section = kDetails},
       [](const View& view) { return view.row.bytes_per_step / kMega; }},
      {{.name = "seeds", .section = kDetails}, [](const View& view) { return view.row.trials.size(); }},
      {{.name = "text", .section = kHeadline, .said_once = true}, text("text")},
      {{.name = "text_sha256", .section = kDetails, .said_once = true}, text("text_sha256")},
  };
  for (const bench::ConfigName name : std::initializer_list<bench::ConfigName>{
           "num_layers", "d_model", "num_heads", "seq_len", "batch_size", "training_steps"}) {
    fields.push_back(
        {{.name = std::string(name.text()), .kind = Kind::kInteger, .section = kDetails, .said_once = true},
         [name](const View& view) { return ConfigNumber(*view.row.measured, name); }});
  }
  fields.push_back({{.name = "world_size", .header = "ranks", .section = kHeadline, .said_once = true},
                    [](const View& view) { return view.row.measured->world_size(); }});
  fields.push_back({{.name = "run", .section = kDetails, .said_once = true},
                    [](const View& view) { return view.row.measured->record.run_id; }});
  fields.push_back({{.name = "baseline", .audience = Audience::kMachines}, [](const View& view) {
                      const LearningRow* const baseline = view.setting.baseline();
                      return baseline == nullptr ? "" : baseline->variant();
                    }});
  fields.push_back(
      {{.name = "verdict", .audience = Audience::kMachines}, [](const View& view) -> std::string {
         if (view.row.verdict == Verdict::kSlower) return "worse";
         return view.row.verdict == Verdict::kFaster ? "better" : std::string(WordOf(view.row.verdict));
       }});
  return fields;
}

// Returns the sentence above the table. All compared rows have all seeds.
std::string FindingOf(const std::vector<LearningSetting>& settings) {
  std::vector<Answer> answers;
  for (const LearningSetting& setting : settings) {
    const LearningRow* const base = setting.baseline();
    if (base == nullptr)
      return Join("No verdict. ", kLossBaseline, " is missing, which losses are compared with.");
    if (base->trials.size() < kFewestSeeds) return Join("No verdict. Fewer than ", kFewestSeeds, " seeds.");
    for (const LearningRow& row : setting.rows)
      answers.push_back({settings.size() > 1 ? RankCount(setting.record().world_size) : "", row.variant(),
                         base->variant(), row.verdict, row.against_baseline});
  }
  const size_t num_seeds = settings[0].baseline()->trials.size();
  return absl::StrJoin(WriteSentences(answers, {"worse", "better", Join("loss over ", num_seeds, " seeds")}),
                       " ");
}

}  // namespace

const LearningRow* LearningSetting::baseline() const {
  // If each variant ran with several optimizers, with AdamW.
  const auto found = std::ranges::find_if(rows, [](const LearningRow& row) {
    const bench::Variant::Options& options = row.measured->record.variant.options;
    const auto optimizer = options.find("optimizer");
    return row.measured->strategy() == kLossBaseline &&
           (optimizer == options.end() || optimizer->second == "adamw");
  });
  return found == rows.end() || steps.empty() ? nullptr : &*found;
}

std::vector<LearningSetting> MakeLearningSettings(const std::vector<Group>& groups) {
  std::vector<LearningSetting> settings;
  for (const Group& group : groups) {
    if (!IsConvergence(group.front().record)) continue;
    settings.push_back(MakeSetting(group));
    if (settings.back().rows.empty()) {  // the run was stopped before a loss was measured
      settings.pop_back();
      continue;
    }
    const auto told = [](const LearningSetting& setting) {
      return setting.record().config.StringOr("text_sha256", "");
    };
    Require(told(settings.back()) == told(settings.front()),
            "convergence: losses on different texts cannot be compared: ", settings.front().record().run_id,
            " has ", told(settings.front()).substr(0, 12), ", ", settings.back().record().run_id, " has ",
            told(settings.back()).substr(0, 12));
  }
  return settings;
}

namespace {

// The loss of a trial after a step.
struct LossView {
  const LearningSetting& setting;
  const LearningRow& row;
  const LearningRow::Trial& trial;
  size_t step;

  double bits() const { return trial.bits[step]; }
  // Returns how much the loss is above the baseline's loss with this seed, in per cent; NaN without a
  // baseline.
  double Delta() const {
    if (setting.baseline() == nullptr) return kNaN;
    for (const LearningRow::Trial& base : setting.baseline()->trials) {
      if (base.seed == trial.seed) return 100 * (bits() / base.bits[step] - 1);
    }
    return kNaN;
  }
};

void AddLossTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables) {
  using View = LossView;
  TableOf<View> table(
      "losses", "Losses by step and seed",
      {{{.name = "variant"}, [](const View& view) { return view.row.variant(); }},
       {{.name = "world_size"}, [](const View& view) { return view.row.measured->world_size(); }},
       {{.name = "seed"}, [](const View& view) { return view.trial.seed; }},
       {{.name = "step"}, [](const View& view) { return view.setting.steps[view.step]; }},
       {{.name = "bits_per_byte"}, &View::bits},
       {{.name = "delta (%)"}, &View::Delta}},
      Audience::kMachines);
  for (const LearningSetting& setting : settings) {
    for (const LearningRow& row : setting.rows) {
      for (const LearningRow::Trial& trial : row.trials) {
        for (size_t step = 0; step < setting.steps.size(); ++step) table.Add({setting, row, trial, step});
      }
    }
  }
  tables->push_back(std::move(table));
}

struct TriedView {
  const LearningSetting& setting;
  const TriedSetting& tried;
};

void AddTuningTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables) {
  using View = TriedView;
  TableOf<View> table(
      "tuning", "Settings that were tried before rows were judged",
      {{{.name = "variant"}, [](const View& view) { return view.tried.measured->variant(); }},
       {{.name = "bits_per_byte"}, [](const View& view) { return Mean(view.tried.bits); }},
       {{.name = "seeds"}, [](const View& view) { return view.tried.bits.size(); }},
       {{.name = "judged"},
        [](const View& view) -> std::string {
          const std::string name = view.tried.measured->variant();
          return std::ranges::count(view.setting.rows, name, &LearningRow::variant) > 0 ? "yes" : "";
        }},
       {{.name = "world_size", .said_once = true},
        [](const View& view) { return view.tried.measured->world_size(); }}});
  for (const LearningSetting& setting : settings) {
    for (const TriedSetting& tried : setting.tried) table.Add({setting, tried});
  }
  if (std::ranges::all_of(settings, [](const LearningSetting& setting) { return setting.tried.empty(); }))
    return;
  table.AddNote(
      "bits_per_byte: held-out loss after the last step, mean over the seeds that choose. judged: the "
      "setting with the lowest loss of its variant. The table of convergence shows it, on other seeds.");
  tables->push_back(std::move(table));
}

}  // namespace

void AddConvergenceTable(const std::vector<LearningSetting>& settings, std::vector<Table>* tables) {
  if (settings.empty()) return;
  // The baseline's time to its own loss is a detail if no other row reaches that loss.
  const bool is_reached = std::ranges::any_of(settings, [](const LearningSetting& setting) {
    return setting.rows.size() == 1 || std::ranges::any_of(setting.rows, [&](const LearningRow& row) {
             return !std::isnan(row.steps_to_reach) && &row != setting.baseline();
           });
  });
  TableOf<LearningView> table("convergence", "Convergence", FieldsOfTable(is_reached));
  std::vector<MeasuredPlace> places;
  for (const LearningSetting& setting : settings) {
    for (const LearningRow& row : setting.rows) {
      table.Add({setting, row});
      places.emplace_back(RankCount(row.measured->world_size()), row.measured);
      if (row.verdict == Verdict::kSlower) table.MarkLast("delta (%)");
    }
  }
  if (std::string finding = FindingOf(settings); !finding.empty()) table.AddFinding(std::move(finding));
  table.AddNote(Join("bits/byte: of the held-out text after the last step, mean over seeds. delta: against ",
                     kLossBaseline,
                     ", paired by seed, with a simultaneous 95 % CI; marked where shown worse."));
  table.AddNote(
      is_reached
          ? Join("time, sent: until every seed has reached the last loss of ", kLossBaseline,
                 " within 0.1 %; empty if one does not. time: so many steps times the row's median step. "
                 "sent: by each rank, as the fastest algorithms send it (an all-reduce 2 (n - 1) / n times "
                 "the vector).")
          : Join("No other row reaches the last loss of ", kLossBaseline,
                 " within 0.1 % with every seed, so only `--details` shows time and sent."));
  table.AddNote(MachinesText(places));
  table.SetSectionTitle(kDetails, "steps: until every seed has reached that loss");
  tables->push_back(std::move(table));
  AddLossTable(settings, tables);
  AddTuningTable(settings, tables);
}

}  // namespace gradsync::tools
