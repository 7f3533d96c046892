#include "tools/tables/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <string_view>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Said of intervals.
constexpr char kIntervals[] = " (simultaneous 95 % CI).";
constexpr size_t kMaxVariants = 400;
constexpr size_t kMaxGroups = 4;
// Shares that differ by less over a whole grid are no trend worth a sentence.
constexpr double kLeastTrend = 0.02;

// Flags that leave nothing to compare, and why.
constexpr std::pair<Flag, std::string_view> kVoid[] = {
    {Flag::kWorldOfOne, "a single rank communicates with nobody"},
    {Flag::kTraced, "every step also wrote a trace"},
    {Flag::kPublished, "published figures have no samples"},
    {Flag::kInBlocks, "strategies took their steps one after the other, not in turn"},
    {Flag::kTooFewForInterval, "there are fewer than 10 steps"},
};

bool Competes(const Variant& variant) {
  return !IsFloor(variant.name) && !Has(variant.flags, Flag::kUnequal) && !Has(variant.flags, Flag::kWrong);
}

// Empty if the times may be compared.
std::string WhyVoid(const std::vector<Case>& cases) {
  for (const auto& [flag, reason] : kVoid) {
    for (const Case& one_case : cases) {
      for (const Variant& variant : one_case.variants) {
        if (Has(variant.flags, flag)) return Join(reason, " (`", WordOf(flag), "`)");
      }
    }
  }
  return "";
}

Pairing PairingOf(const Variant& a, const Variant& b) {
  const bool is_paired = a.is_interleaved && b.is_interleaved && a.steps_s.size() == b.steps_s.size();
  return is_paired ? Pairing::kRounds : Pairing::kNone;
}

struct Difference {
  std::string to;  // the other variant
  double value = 0;
  Interval interval;

  bool is_shown() const { return interval.high < 0 || interval.low > 0; }
};

// What the fastest mean of a case is worth.
struct Result {
  std::string of_case;
  std::string best;
  std::vector<Difference> differences{};  // of best to the others, the closest one first

  bool is_shown() const {
    return std::ranges::all_of(differences, [](const Difference& other) { return other.interval.high < 0; });
  }
};

// The variants that compete, the fastest mean first.
std::vector<const Variant*> FieldOf(const Case& one_case) {
  std::vector<const Variant*> field;
  for (const Variant& variant : one_case.variants) {
    if (Competes(variant)) field.push_back(&variant);
  }
  std::ranges::stable_sort(field, std::less<>(),
                           [](const Variant* variant) { return Mean(variant->steps_s); });
  return field;
}

// All pairs are compared: any of them might have been the best one and another.
std::vector<Result> Judge(const std::vector<Case>& cases, const BootstrapOptions& bootstrap) {
  std::vector<ComparedSamples> pairs;
  for (const Case& one_case : cases) {
    const std::vector<const Variant*> field = FieldOf(one_case);
    for (size_t i = 0; i < field.size(); ++i) {
      for (size_t j = i + 1; j < field.size(); ++j) {
        pairs.push_back({field[i]->steps_s, field[j]->steps_s, PairingOf(*field[i], *field[j])});
      }
    }
  }
  const std::vector<Interval> intervals = Bootstrap(bootstrap).Simultaneous(pairs);
  std::vector<Result> results;
  size_t first = 0;  // of the case's pairs, which begin with those of the best
  for (const Case& one_case : cases) {
    const std::vector<const Variant*> field = FieldOf(one_case);
    if (field.size() < 2) continue;
    Result& result = results.emplace_back(Result{one_case.name, field[0]->name});
    for (size_t i = 1; i < field.size(); ++i) {
      result.differences.push_back({field[i]->name, RelativeDifference(field[0]->steps_s, field[i]->steps_s),
                                    intervals[first + i - 1]});
    }
    first += field.size() * (field.size() - 1) / 2;
  }
  return results;
}

std::string Text(const Difference& difference) {
  char text[96];
  std::snprintf(text, sizeof text, "%+.1f %% [%+.1f, %+.1f]", 100 * difference.value,
                100 * difference.interval.low, 100 * difference.interval.high);
  return text;
}

std::string OneCase(const Result& result, const Words& words) {
  std::vector<std::string> shown;
  std::vector<std::string> open;
  for (const Difference& difference : result.differences) {
    (difference.is_shown() ? shown : open).push_back(Join(Text(difference), " against ", difference.to));
  }
  if (result.is_shown()) return Join(result.best, " is fastest: ", ListOf(shown), kIntervals);
  return Join("No ", words.variant, " is shown to be fastest. ", result.best,
              " has the smallest mean; these data decide nothing about its ", ListOf(open),
              shown.empty() ? "" : ", but show its ", ListOf(shown), kIntervals);
}

// "core is fastest in 5 of 6 cells; ..."
std::string ManyCases(const std::vector<Result>& results, const Words& words) {
  std::map<std::string, std::vector<const Result*>> wins;
  std::vector<std::string> open;
  for (const Result& result : results) {
    if (result.is_shown()) {
      wins[result.best].push_back(&result);
    } else {
      open.push_back(result.of_case);
    }
  }
  std::string text;
  for (const auto& [strategy, won] : wins) {
    text += Join(text.empty() ? "" : "; ", strategy, " is fastest ", words.at, " ", won.size(), " of ",
                 results.size(), " ", words.of_case, "s");
    // The other strategies there, with the least and the largest difference.
    std::map<std::string, std::pair<const Difference*, const Difference*>> ranges;
    for (const Result* result : won) {
      for (const Difference& difference : result->differences) {
        auto& [least, most] = ranges[difference.to];
        if (least == nullptr || difference.value > least->value) least = &difference;
        if (most == nullptr || difference.value < most->value) most = &difference;
      }
    }
    std::vector<std::string> parts;
    for (const auto& [other, range] : ranges) {
      parts.push_back(range.first == range.second
                          ? Join(Text(*range.first), " against ", other)
                          : Join(Text(*range.second), " to ", Text(*range.first), " against ", other));
    }
    text += Join(": ", ListOf(parts));
  }
  if (wins.empty()) {
    return Join(words.at == "in" ? "In" : "At", " none of ", results.size(), " ", words.of_case, "s is a ",
                words.variant, " shown to be fastest: these data do not decide it.");
  }
  if (!open.empty())
    text += Join("; ", words.at, " ", ListOf(open), " no ", words.variant, " is shown to be fastest");
  return text + kIntervals;
}

// Whether the shares change in one direction with every step of `along`, at every value of the other.
std::string Direction(const std::map<std::pair<double, double>, double>& shares, bool along_batch) {
  bool falls = true;
  bool rises = true;
  size_t steps = 0;
  for (const auto& [cell, share] : shares) {
    double nearest = std::numeric_limits<double>::infinity();
    double next = kNaN;
    for (const auto& [other, other_share] : shares) {
      const double fixed = along_batch ? cell.second - other.second : cell.first - other.first;
      const double distance = along_batch ? other.first - cell.first : other.second - cell.second;
      if (fixed == 0 && distance > 0 && distance < nearest) nearest = distance, next = other_share;
    }
    if (std::isnan(next)) continue;
    ++steps;
    falls &= next < share;
    rises &= next > share;
  }
  if (steps < 2) return "";
  return falls ? "falls" : rises ? "rises" : "";
}

}  // namespace

std::string ListOf(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    text += Join(i == 0 ? "" : i + 1 == items.size() ? " and " : ", ", items[i]);
  }
  return text;
}

std::vector<std::string> WinnerSentences(const std::vector<Case>& cases, const BootstrapOptions& bootstrap,
                                         const Words& words) {
  size_t most = 0;
  for (const Case& one_case : cases) {
    most = std::max(most, static_cast<size_t>(
                              std::count_if(one_case.variants.begin(), one_case.variants.end(), Competes)));
  }
  if (most < 2) return {};
  const std::string reason = WhyVoid(cases);
  if (!reason.empty()) return {Join("No ", words.variant, " is called fastest: ", reason, ".")};

  const std::vector<Result> results = Judge(cases, bootstrap);
  std::string text = results.size() == 1 ? OneCase(results[0], words) : ManyCases(results, words);
  bool is_oversubscribed = false;
  for (const Case& one_case : cases) {
    for (const Variant& variant : one_case.variants) {
      is_oversubscribed |= Has(variant.flags, Flag::kOversubscribed);
    }
  }
  if (is_oversubscribed) text += " Measured with more threads than CPUs.";
  return {text};
}

std::vector<std::string> TrendSentences(const std::vector<Case>& cases) {
  std::map<std::string, std::map<std::pair<double, double>, double>> by_strategy;
  std::map<std::string, std::vector<std::string>> outliers;
  std::set<std::string> ambiguous;
  for (const Case& one_case : cases) {
    for (const Variant& variant : one_case.variants) {
      if (IsFloor(variant.name) || std::isnan(variant.share)) continue;
      if (Has(variant.flags, Flag::kOutlierCell)) {
        outliers[variant.name].push_back(one_case.name);
        continue;
      }
      const bool is_new = by_strategy[variant.name]
                              .try_emplace({one_case.batch_size, one_case.seq_len}, variant.share)
                              .second;
      if (!is_new) ambiguous.insert(variant.name);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [strategy, shares] : by_strategy) {
    if (ambiguous.contains(strategy)) continue;
    std::vector<std::string> parts;
    for (const bool along_batch : {true, false}) {
      const std::string direction = Direction(shares, along_batch);
      if (!direction.empty()) {
        parts.push_back(Join(direction, " with every larger ", along_batch ? "batch" : "sequence"));
      }
    }
    if (parts.empty()) continue;
    double low = 1;
    double high = 0;
    for (const auto& [cell, share] : shares) low = std::min(low, share), high = std::max(high, share);
    if (high - low < kLeastTrend) continue;
    char range[64];
    std::snprintf(range, sizeof range, " (%.0f to %.0f %%", 100 * low, 100 * high);
    const auto left_out = outliers.find(strategy);
    sentences.push_back(Join(
        "In the means, the share of synchronisation under ", strategy, " ", ListOf(parts), range,
        left_out == outliers.end() ? "" : "; without " + ListOf(left_out->second) + ", off the trend", ")."));
  }
  return sentences;
}

void StepFindings::Add(const Measurement& measurement, const Series& steps, const Flags& flags) {
  if (++num_variants_ > kMaxVariants) return;
  const bench::Record& record = measurement.record;
  std::string group = record.run_id;
  for (const char* const name : {"model", "backend", "device", "dtype"}) {
    group += Join(", ", record.config.StringOr(name, ""));
  }
  const double batch_size = ConfigNumber(measurement, "batch_size");
  const double seq_len = ConfigNumber(measurement, "seq_len");
  const std::string name = std::isnan(seq_len) ? Join("batch ", batch_size) : Join(batch_size, "x", seq_len);
  Case& one_case = Named(name, &Named(group, &groups_).cases);
  one_case.batch_size = batch_size;
  one_case.seq_len = seq_len;
  std::string strategy = measurement.strategy();
  if (std::ranges::count(one_case.variants, strategy, &Variant::name) > 0) {
    strategy += Join(" with buckets of ", ConfigNumber(measurement, "bucket_bytes"), " bytes");
  }
  one_case.variants.push_back({std::move(strategy), steps.max,
                               MeanOf(measurement, "sync_exposed_ns") / steps.mean(),
                               IsInterleaved(measurement), flags});
}

std::vector<std::string> StepFindings::Sentences(size_t fewest_cases, bool with_trends,
                                                 const BootstrapOptions& bootstrap) const {
  if (num_variants_ > kMaxVariants || groups_.size() > kMaxGroups) return {};
  return SentencesOfRuns<Group>(groups_, [&](const Group& group) {
    std::vector<std::string> sentences;
    if (group.cases.size() < fewest_cases) return sentences;
    sentences = WinnerSentences(group.cases, bootstrap);
    if (with_trends) Append(TrendSentences(group.cases), &sentences);
    return sentences;
  });
}

}  // namespace gradsync::tools
