#include "tools/tables/compare_findings.h"

#include <algorithm>
#include <cstdio>

#include "model/error.h"
#include "tools/statistics/significance.h"
#include "tools/tables/run_columns.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kLevel = 0.05;
constexpr double kMebi = 1 << 20;
constexpr size_t kMaxTimes = 2000;

// How a strategy compares with the baseline in one phase, over all sizes.
struct Tally {
  std::string strategy;
  std::string baseline;
  int sizes = 0;
  int slower = 0;
  int faster = 0;
  // Of the differences that are shown, in percent.
  double least = 0;
  double most = 0;

  void Take(double delta_percent, bool is_shown) {
    ++sizes;
    if (!is_shown) return;
    const bool is_first = slower + faster == 0;
    ++(delta_percent > 0 ? slower : faster);
    least = is_first ? delta_percent : std::min(least, delta_percent);
    most = is_first ? delta_percent : std::max(most, delta_percent);
  }
};

std::string Percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", value);
  return text;
}

std::string SentenceOf(const std::string& phase, const Tally& tally) {
  const auto at = [&](int count, const char* what) {
    return count == 0 ? std::string() : Join(what, " at ", count, " of ", tally.sizes);
  };
  std::string text;
  for (const std::string& part : {at(tally.slower, "slower"), at(tally.faster, "faster"),
                                  at(tally.sizes - tally.slower - tally.faster, "no difference shown")}) {
    if (!part.empty()) text += Join(text.empty() ? "" : ", ", part);
  }
  std::string range;
  if (tally.slower + tally.faster == 1) range = Join(" (", Percent(tally.least), ")");
  if (tally.slower + tally.faster > 1) {
    range = Join(" (", Percent(tally.least), " to ", Percent(tally.most), ")");
  }
  return Join(phase, " of ", tally.strategy, " against ", tally.baseline, ": ", text,
              tally.sizes == 1 ? " size" : " sizes", range, ".");
}

bool IsShown(const SizeComparison& comparison, double adjusted_p_value) {
  const Interval& interval = comparison.interval_percent;
  return comparison.num_steps >= kFewestForInterval && (interval.low > 0 || interval.high < 0) &&
         adjusted_p_value < kLevel;
}

}  // namespace

void CompareFindings::AddTimes(const std::string& phase, bool has_winner, const Measurement& measurement,
                               const Series& times, const std::string& flags) {
  if (++num_times_ > kMaxTimes) return;
  if (std::find(phases_.begin(), phases_.end(), phase) == phases_.end()) phases_.push_back(phase);
  if (!has_winner) return;
  auto contest = std::find_if(contests_.begin(), contests_.end(),
                              [&](const auto& candidate) { return candidate.first == phase; });
  if (contest == contests_.end()) contest = contests_.insert(contests_.end(), {phase, {}});
  std::vector<Place>& places = contest->second;
  const std::string name = Join(ConfigNumber(measurement, "buffer_elements") / kMebi, "Mi");
  if (places.empty() || places.back().name != name) places.push_back({.contenders = {}, .name = name});
  places.back().contenders.push_back({.strategy = measurement.strategy(),
                                      .steps_s = times.max,
                                      .is_interleaved = IsInterleaved(measurement),
                                      .flags = flags});
}

void CompareFindings::AddComparison(SizeComparison comparison) {
  if (num_times_ <= kMaxTimes) comparisons_.push_back(std::move(comparison));
}

std::vector<std::string> CompareFindings::Sentences(const BootstrapOptions& bootstrap) const {
  if (num_times_ > kMaxTimes) return {};
  std::vector<std::string> sentences = WinnersOf(bootstrap);
  Append(ComparisonSentences(), &sentences);
  return sentences;
}

std::vector<std::string> CompareFindings::WinnersOf(const BootstrapOptions& bootstrap) const {
  const Words words = {.place = "size", .at = "at"};
  std::vector<std::string> all;
  for (const auto& [phase, places] : contests_) {
    for (const std::string& sentence : WinnerSentences(places, bootstrap, words)) {
      all.push_back(Join(phase, ": ", sentence));
    }
  }
  return all;
}

std::vector<std::string> CompareFindings::ComparisonSentences() const {
  std::vector<double> p_values;
  for (const SizeComparison& comparison : comparisons_) p_values.push_back(comparison.p_value);
  p_values = HolmAdjusted(p_values);
  std::vector<std::string> sentences;
  for (const std::string& phase : phases_) {
    std::vector<Tally> tallies;
    for (size_t i = 0; i < comparisons_.size(); ++i) {
      const SizeComparison& comparison = comparisons_[i];
      if (comparison.phase != phase) continue;
      auto tally = std::find_if(tallies.begin(), tallies.end(), [&](const Tally& candidate) {
        return candidate.strategy == comparison.strategy && candidate.baseline == comparison.baseline;
      });
      if (tally == tallies.end()) {
        tally =
            tallies.insert(tallies.end(), {.strategy = comparison.strategy, .baseline = comparison.baseline});
      }
      tally->Take(comparison.delta_percent, IsShown(comparison, p_values[i]));
    }
    for (const Tally& tally : tallies) sentences.push_back(SentenceOf(phase, tally));
  }
  return sentences;
}

}  // namespace gradsync::tools
