#include "tools/tables/compare_findings.h"

#include <algorithm>
#include <cstdio>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/training_rows.h"

namespace gradsync::tools {
namespace {

constexpr double kMebi = 1 << 20;
constexpr size_t kMaxTimes = 2000;

// How a strategy compares with the baseline in one phase, over all sizes.
struct Tally {
  std::string name;  // "core against naive"
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
  return Join(phase, " of ", tally.name, ": ", text, tally.sizes == 1 ? " size" : " sizes", range, ".");
}

bool IsShown(const SizeComparison& comparison) {
  const Interval& interval = comparison.interval_percent;
  return comparison.num_steps >= kFewestForInterval && (interval.low > 0 || interval.high < 0);
}

}  // namespace

void CompareFindings::AddTimes(const std::string& phase, bool has_winner, const Measured& row,
                               const Series& times, const Flags& flags) {
  if (++num_times_ > kMaxTimes) return;
  Phase& group = Named(phase, &phases_);
  if (!has_winner) return;
  group.baseline = row.baseline.strategy();
  Named(Join(ConfigNumber(row.own, "buffer_elements") / kMebi, "Mi"), &group.cases)
      .variants.push_back({row.own.strategy(), SampleOf(row.own, times), flags});
}

void CompareFindings::Compare(Intervals* intervals) {
  if (num_times_ > kMaxTimes) return;
  for (Phase& phase : phases_) {
    phase.contest.emplace(std::move(phase.cases), phase.baseline, Words{.of_case = "size", .at = "at"});
    phase.contest->Compare(intervals);
  }
}

void CompareFindings::AddComparison(SizeComparison comparison) {
  if (num_times_ > kMaxTimes) return;
  Named(comparison.phase, &phases_).comparisons.push_back(std::move(comparison));
}

std::vector<std::string> CompareFindings::Sentences(const Intervals& intervals) const {
  if (num_times_ > kMaxTimes) return {};
  std::vector<std::string> sentences;
  for (auto phase = phases_.rbegin(); phase != phases_.rend(); ++phase) {
    for (const std::string& sentence : phase->contest->Sentences(intervals)) {
      sentences.push_back(Join(phase->name, ": ", sentence));
    }
  }
  for (const Phase& phase : phases_) {
    std::vector<Tally> tallies;
    for (const SizeComparison& comparison : phase.comparisons) {
      Named(Join(comparison.strategy, " against ", comparison.baseline), &tallies)
          .Take(comparison.delta_percent, IsShown(comparison));
    }
    for (const Tally& tally : tallies) sentences.push_back(SentenceOf(phase.name, tally));
  }
  return sentences;
}

void CompareFindings::AddDifferences(const Intervals& intervals, Table* table) const {
  if (num_times_ > kMaxTimes) return;
  for (const Phase& phase : phases_) phase.contest->AddDifferences(phase.name + " ", intervals, table);
}

}  // namespace gradsync::tools
