#include "tools/tables/compare_findings.h"

#include <algorithm>
#include <cstdio>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// How a strategy compares with the baseline in one phase, over all sizes.
struct Tally {
  std::string name;  // "step of core against naive"
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

std::string SentenceOf(const Tally& tally) {
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
  return Join(tally.name, ": ", text, tally.sizes == 1 ? " size" : " sizes", range, ".");
}

bool IsShown(const SizeComparison& comparison) {
  const Interval& interval = comparison.interval_percent;
  return comparison.num_steps >= kFewestForInterval && (interval.low > 0 || interval.high < 0);
}

}  // namespace

std::vector<std::string> TallySentences(const std::vector<SizeComparison>& comparisons) {
  std::vector<Tally> tallies;
  for (const SizeComparison& comparison : comparisons) {
    const std::string name =
        Join(comparison.phase, " of ", comparison.strategy, " against ", comparison.baseline);
    auto found = std::ranges::find(tallies, name, &Tally::name);
    if (found == tallies.end()) found = tallies.insert(found, {name});
    found->Take(comparison.delta_percent, IsShown(comparison));
  }
  std::vector<std::string> sentences;
  for (const Tally& tally : tallies) sentences.push_back(SentenceOf(tally));
  return sentences;
}

}  // namespace gradsync::tools
