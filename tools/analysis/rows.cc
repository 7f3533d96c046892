#include "tools/analysis/rows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/pairs.h"

namespace gradsync::tools {
namespace {

// Returns the candidate that is most similar to `row`: with its backend and its bucket size. A floor with the
// clipping of `row` is preferred. Null without a candidate.
template <class IsCandidate>
const Row* MostLike(const std::vector<Row>& rows, const Row& row, const IsCandidate& is_candidate) {
  const auto clips_to = [](const Row& any) { return any.option("clip_norm"); };
  const Row* best = nullptr;
  int most = -1;
  for (const Row& other : rows) {
    if (!is_candidate(other)) continue;
    const int alike =
        8 * (other.is_floor() && clips_to(other) == clips_to(row)) + 4 * (other.backend() == row.backend()) +
        2 * (LabelledSize(*other.measured) == LabelledSize(*row.measured)) +
        (other.facts().DoubleOr("bucket_bytes", kNaN) == row.facts().DoubleOr("bucket_bytes", kNaN));
    if (alike > most) {
      most = alike;
      best = &other;
    }
  }
  return best;
}

// Finds the baseline and the floor of each row, without estimating anything.
void FindBaselines(std::string_view wanted, Setting* setting) {
  std::vector<Row>& rows = setting->rows;
  const auto is_it = [&](const Row& row) { return row.is_called(wanted); };
  const auto competes = [](const Row& row) { return !row.is_floor() && !row.is_peer(); };
  const bool has_it = std::ranges::any_of(rows, is_it);
  const bool is_variant = std::ranges::any_of(rows, [&](const Row& row) { return row.variant() == wanted; });
  const auto first = std::ranges::find_if(rows, competes);
  const auto is_like_first = [&](const Row& row) {
    return row.strategy().empty() ? &row == &*first : row.strategy() == first->strategy();
  };
  std::map<const Row*, std::set<std::string>> backends;  // backends with their options, by baseline
  for (const Row& row : rows) {
    const Row* const floor = MostLike(rows, row, [&](const Row& other) {
      return other.is_floor() && other.strategy() == row.measured->floor();
    });
    if (floor != nullptr) setting->costs.push_back({.row = &row, .floor = floor});
    if (!competes(row) && !is_it(row)) continue;
    const Row* const base = MostLike(rows, row, [&](const Row& other) {
      // A strategy is the baseline only over its own backend, because a difference between backends would
      // measure the backends.
      const bool is_here = is_variant || row.strategy().empty() || other.backend() == row.backend();
      return is_here && (has_it ? is_it(other) : is_like_first(other));
    });
    if (base == nullptr) continue;
    setting->comparisons.push_back({.row = &row, .base = base});
    if (row.backend() != bench::kNoBackend) backends[base].insert(row.measured->record.variant.over());
  }
  for (Comparison& comparison : setting->comparisons)
    comparison.spans_backends = backends[comparison.base].size() > 1;
  for (Row& row : rows) {
    const bool is_spanned = setting->ComparisonOf(row).spans_backends;
    row.label = is_spanned ? row.variant() : row.measured->record.variant.label();
  }
}

// Warnings with which no row can be called the fastest.
constexpr Warning kVoid[] = {Warning::kWorldOfOne, Warning::kSharedGpu, Warning::kSharedCpu,
                             Warning::kTraced,     Warning::kInBlocks,  Warning::kTooFewForInterval,
                             Warning::kPublished};

std::string WhyNothingIsSaid(const Setting& setting) {
  for (const Warning warning : kVoid) {
    for (const Row& row : setting.rows) {
      if (Has(row.warnings, warning)) return Join("`", WordOf(warning), "`: ", ExplanationOf(warning));
    }
  }
  return "";
}

std::string WhyNoVerdict(const Row& row) {
  const bool is_disturbed = OthersShare(*row.measured, MainTimes(*row.measured)) >= kTooDisturbed;
  Warnings warnings = row.warnings;
  std::erase_if(warnings, [&](const RowWarning& warning) {
    return warning.kind != Warning::kRanksMissing && !(is_disturbed && warning.kind == Warning::kDisturbed);
  });
  return TextOf(warnings);
}

void Conclude(Setting* setting) {
  setting->void_reason = WhyNothingIsSaid(*setting);
  for (Cost& cost : setting->costs) {
    if (!setting->void_reason.empty()) cost.total.interval = {};
  }
  std::map<const Row*, std::vector<Comparison*>> rivals;  // rows by baseline
  std::map<const Row*, size_t> num_exact;                 // of them, and of exact rows that left early
  for (Comparison& comparison : setting->comparisons) {
    const Row &row = *comparison.row, &base = *comparison.base;
    Estimate& estimate = comparison.estimate;
    if (!setting->void_reason.empty()) estimate.interval = {};
    if (std::isnan(estimate.value)) estimate.value = row.step_s / base.step_s - 1;
    Judge(&comparison);
    const bool is_comparable = comparison.is_of_baseline() || comparison.verdict != Verdict::kNone;
    if (!is_comparable || !row.is_right() || !comparison.no_verdict.empty()) continue;
    ++num_exact[&base];
    if (!row.left_early) rivals[&base].push_back(&comparison);
  }
  for (const auto& [base, own] : rivals) {
    const std::vector<std::vector<double>> leads = FindLeads(*setting, {own.begin(), own.end()});
    for (size_t k = 0; k < own.size(); ++k)
      own[k]->may_be_fastest = num_exact[base] > 1 && setting->takes_turns() && MayBeFastest(leads[k]);
  }
}

// Returns the bus bandwidth of a collective; in training, the bytes that a rank sends divided by the time in
// which it sends them.
double BusBandwidthOf(const Measurement& measurement) {
  const bench::Record& record = measurement.record;
  // If data are sent once in several steps, the time of a step does not contain the whole transfer.
  if (measurement.is_floor() || record.facts.IntOr("period", 1) > 1) return kNaN;
  if (const Series* const times = measurement.Find("time_ns")) {
    const double in_flight = static_cast<double>(measurement.record.config.IntOr("in_flight", 1));
    return BusBandwidth(in_flight * ConfigNumber(measurement, "size_bytes"), TypicalTime(times),
                        measurement.world_size(), record.config.StringOr("collective", "all_reduce"));
  }
  const Series* const busy = measurement.Find("comm_busy_ns");
  const double sent = record.facts.DoubleOr("sent_bytes_per_step", kNaN);
  if (sent > 0 && busy != nullptr && busy->mean() > 0) return sent / busy->mean();
  // If communication was not timed, the waiting time of a strategy that waits for all communication is an
  // upper bound.
  const bool waits = record.facts.Find("overlaps") != nullptr && !record.facts.BoolOr("overlaps", true);
  const Series* const waited = waits ? measurement.Find(kWaits) : nullptr;
  return waited == nullptr ? kNaN
                           : BusBandwidth(record.facts.DoubleOr("gradient_bytes", kNaN), waited->mean(),
                                          measurement.world_size());
}

}  // namespace

Verdict JudgeInterval(const Interval& interval, double equal_within) {
  if (!interval.is_known()) return Verdict::kNone;
  if (interval.low > 0) return Verdict::kSlower;
  if (interval.high < 0) return Verdict::kFaster;
  return interval.low > -equal_within && interval.high < equal_within ? Verdict::kEqual : Verdict::kOpen;
}

void Judge(Comparison* comparison) {
  const Row &row = *comparison->row, &base = *comparison->base;
  comparison->no_verdict = row.no_verdict;
  if (row.no_verdict.empty() && !base.no_verdict.empty())
    comparison->no_verdict = Join(base.label, " ", base.no_verdict);
  if (row.is_right() && base.is_right() && comparison->no_verdict.empty())
    comparison->verdict = JudgeInterval(comparison->estimate.interval);
}

std::string_view WordOf(Verdict verdict) {
  constexpr std::string_view kWords[] = {"", "slower", "faster", "equal", "open"};
  return kWords[static_cast<size_t>(verdict)];
}

double Row::MeanOf(SampleName samples) const {
  const Series* const series = measured->Find(samples);
  return series == nullptr ? kNaN : series->mean();
}

SampleName StepSamples(const Measurement& measurement) {
  return measurement.Find("time_ns") == nullptr ? SampleName("step_ns") : "time_ns";
}

const Series& MainTimes(const Measurement& measurement) {
  if (const Series* const series = measurement.Find(StepSamples(measurement))) return *series;
  return measurement.series.begin()->second;  // published phases
}

double TypicalTime(const Series* series) {
  if (series == nullptr) return kNaN;
  return series->published ? series->published->mean : TrimmedMean(series->max);
}

double LabelledSize(const Measurement& measurement) {
  const bench::Variant& variant = measurement.record.variant;
  return variant.NumberOr("bucket_elements", variant.NumberOr("published_size", 0));
}

double ConfigNumber(const Measurement& measurement, bench::ConfigName name) {
  return measurement.record.config.DoubleOr(name, kNaN);
}

double PrecisionOf(const Setting& setting) {
  std::vector<double> widths;
  for (const Comparison& own : setting.comparisons) {
    if (!own.is_of_baseline()) widths.push_back(own.estimate.interval.half_width());
  }
  for (const Cost& cost : setting.costs) {
    const Row* const base = setting.ComparisonOf(*cost.row).base;
    if (cost.row != cost.floor)
      widths.push_back(cost.total.interval.half_width() / (base == nullptr ? cost.floor : base)->step_s);
  }
  const bool is_known = std::ranges::none_of(widths, [](double width) { return std::isnan(width); });
  return is_known && !widths.empty() ? std::ranges::max(widths) : kNaN;
}

Comparison Setting::ComparisonOf(const Row& row) const {
  const auto found = std::ranges::find(comparisons, &row, &Comparison::row);
  return found == comparisons.end() ? Comparison() : *found;
}

Cost Setting::CostOf(const Row& row) const {
  const auto found = std::ranges::find(costs, &row, &Cost::row);
  return found == costs.end() ? Cost() : *found;
}

namespace {

// Copies from `choosing` the estimates of rows that left early: the first launch measured them.
void KeepEstimates(const Setting& choosing, Setting* setting) {
  const auto are_same = [](const Row& own, const Row& other) {
    return own.left_early && own.measured == other.measured;
  };
  for (Comparison& own : setting->comparisons) {
    for (const Comparison& other : choosing.comparisons) {
      if (!are_same(*own.row, *other.row)) continue;
      own.estimate = other.estimate;
      own.may_be_fastest = other.may_be_fastest;
    }
  }
  for (Cost& own : setting->costs) {
    for (Cost other : choosing.costs) {
      if (!are_same(*own.row, *other.row)) continue;
      other.row = own.row;
      other.floor = own.floor;
      own = other;
    }
  }
}

// Returns the rows that took part in all launches. They show by how much launches differ.
Group Together(const Group& choosing, const Group& deciding) {
  Group together;
  for (const Measurement& early : choosing) {
    const auto later = std::ranges::find(deciding, early.variant(), &Measurement::variant);
    if (later != deciding.end()) AddLaunch(*later, &together.emplace_back(early));
  }
  return together;
}

// `choosing` is the group of the launch that chose this group's rows, or null. `launches` is what is known
// about the variation between launches.
Setting MakeSetting(const Group& group, std::string_view baseline_row, const Group* choosing = nullptr,
                    LaunchEffect launches = {}) {
  const bench::Record& record = group.front().record;
  Setting setting;
  setting.experiment = record.experiment;
  for (const Measurement& measurement : group) setting.rows.push_back({.measured = &measurement});
  for (size_t i = 0; choosing != nullptr && i < choosing->size(); ++i) {
    const Measurement& early = (*choosing)[i];
    if (std::ranges::count(group, early.variant(), &Measurement::variant) == 0)
      setting.rows.push_back({.measured = &early, .left_early = true});
  }
  FindBaselines(baseline_row, &setting);
  for (Row& row : setting.rows) {
    row.step_s = TypicalTime(row.measured->Find(StepSamples(*row.measured)));
    const Row* const base = setting.ComparisonOf(row).base;
    row.bus_bytes_per_second = BusBandwidthOf(*row.measured);
    row.warnings = FindWarnings({*row.measured, MainTimes(*row.measured), row.bus_bytes_per_second,
                                 base == nullptr ? nullptr : base->measured});
    row.no_verdict = WhyNoVerdict(row);
  }
  if (choosing != nullptr) {
    const Group together = Together(*choosing, group);
    if (!together.empty()) launches = FindLaunchEffect(MakeSetting(together, baseline_row));
  }
  setting.confidence.launches = launches;
  if (record.config.StringOr("order", "") == "interleaved") EstimateInTurn(&setting);
  if (choosing != nullptr) KeepEstimates(MakeSetting(*choosing, baseline_row, nullptr, launches), &setting);
  Conclude(&setting);
  return setting;
}

}  // namespace

std::vector<Setting> MakeSettings(const std::vector<Group>& groups, std::string_view baseline_row) {
  std::vector<Setting> settings;
  const auto are_of_one_run = [](const Group& a, const Group& b) {
    const bench::Record &first = a.front().record, &second = b.front().record;
    return first.facts.StringOr("launch_set", "") == second.facts.StringOr("launch_set", "") &&
           SettingOf(first) == SettingOf(second);
  };
  const auto find = [&](const Group& group, Stage stage) {
    const auto found = std::ranges::find_if(groups, [&](const Group& other) {
      return other.front().stage() == stage && are_of_one_run(other, group);
    });
    return found == groups.end() ? nullptr : &*found;
  };
  for (const Group& group : groups) {
    const Stage stage = group.front().stage();
    if (stage == Stage::kChoosing && find(group, Stage::kDeciding) != nullptr) continue;
    settings.push_back(MakeSetting(group, baseline_row,
                                   stage == Stage::kDeciding ? find(group, Stage::kChoosing) : nullptr));
  }
  return settings;
}

Settings NameSettings(const std::vector<Setting>& settings) {
  std::vector<const Setting*> all;
  for (const Setting& setting : settings) all.push_back(&setting);
  return NameSettings(all);
}

Settings NameSettings(const std::vector<const Setting*>& settings) {
  constexpr std::pair<const char*, const char*> kWords[] = {{"collective", ""},
                                                            {"link_rate", ""},
                                                            {"model", ""},
                                                            {"batch_size", "batch "},
                                                            {"accumulation_steps", "accumulation "},
                                                            {"seq_len", "sequence "},
                                                            {"image_size", "images of "},
                                                            {"size_bytes", ""},
                                                            {"device", ""},
                                                            {"dtype", ""},
                                                            {"op", ""},
                                                            {"threads_per_rank", "threads "},
                                                            {"ranks", ""}};
  // Values by experiment and field.
  std::map<std::string, std::map<std::string, std::set<std::string>>> values;
  std::vector<Configuration> configurations;
  for (const Setting* const setting : settings) {
    const Measurement& any = *setting->any().measured;
    Configuration& own = configurations.emplace_back(ConfigurationOf(any.record));
    own["ranks"] = RankCount(any.world_size());
    const double rate = ConfigNumber(any, "link_rate");
    own["link_rate"] = std::isnan(rate) ? "no link" : RateText(rate);
    if (const int64_t size_bytes = any.record.config.IntOr("size_bytes", 0); size_bytes > 0)
      own["size_bytes"] = SizeText(size_bytes);
    for (const auto& [field, word] : kWords) values[setting->experiment][field].insert(own[field]);
  }
  Settings named;
  std::map<std::pair<std::string, std::string>, size_t> namesakes;
  for (size_t i = 0; i < settings.size(); ++i) {
    const std::string& experiment = settings[i]->experiment;
    std::vector<std::string> parts;
    for (const auto& [field, word] : kWords) {
      const std::string& value = configurations[i][field];
      if (values[experiment][field].size() > 1 && !value.empty()) parts.push_back(Join(word, value));
    }
    named.push_back({settings[i], absl::StrJoin(parts, ", ")});
    ++namesakes[{experiment, named.back().name}];
  }
  for (auto& [setting, name] : named) {
    if (namesakes[{setting->experiment, name}] < 2) continue;
    name += Join(name.empty() ? "" : ", ", "run ", setting->any().measured->record.run_id);
  }
  return named;
}

}  // namespace gradsync::tools
