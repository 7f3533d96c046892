#ifndef GRADSYNC_TOOLS_TABLES_INTERVALS_H_
#define GRADSYNC_TOOLS_TABLES_INTERVALS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {

// Steps of one strategy, or whatever else is compared.
struct Sample {
  std::vector<double> values;
  std::vector<Launch> launches{};  // whose they are; empty: all of one
  bool is_in_turn = false;         // value i of each launch is of round i, as other strategies' are
  bool is_in_block = false;  // taken one after the other: what drifts in between looks like a difference
};
Sample SampleOf(const Measurement& measurement, const Series& series);

// Whether its steps were taken in turn with other strategies'.
bool IsInTurn(const Measurement& measurement);

// Which values of two samples were taken in the same rounds of the same launches. Of an interrupted run the
// last round may be there of one only.
struct SharedRounds {
  std::vector<size_t> own;    // numbers of values
  std::vector<size_t> other;  // as many
  std::vector<size_t> launches;
};
SharedRounds SharedRoundsOf(const std::vector<Launch>& own, const std::vector<Launch>& other);

// The intervals of a table, which hold all at once (Bootstrap::Simultaneous). First all are added, then
// computed. NaN: there is none, as of single launches whose strategies were measured one after the other, of
// a sample with itself, and of published figures.
class Intervals {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  explicit Intervals(const BootstrapOptions& options) : options_(options) {}

  // Of the relative difference of means, by rounds if both took their steps in turn. Returns its number.
  size_t AddRatio(const Sample& own, const Sample& other);
  // Of a mean over rounds, in its unit.
  size_t AddMean(std::vector<double> values, std::vector<size_t> launches);

  void Compute();
  Interval operator[](size_t number) const;

  // "bootstrap of rounds (2000 resamples). ..."
  std::string Description() const;

 private:
  const BootstrapOptions options_;
  std::vector<ComparedSamples> compared_;
  std::vector<Interval> intervals_;
  bool has_several_launches_ = false;
  bool resampled_rounds_ = false;
  bool resampled_steps_ = false;
};

inline Interval InPercent(const Interval& interval) { return {100 * interval.low, 100 * interval.high}; }

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_INTERVALS_H_
