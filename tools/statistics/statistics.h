#ifndef GRADSYNC_TOOLS_STATISTICS_STATISTICS_H_
#define GRADSYNC_TOOLS_STATISTICS_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gradsync::tools {

// All of these return NaN for no values, and where a sample is too small to have the statistic.
double Mean(std::span<const double> values);
// Divides by n: what the reference tables print, and numpy's default.
double PopulationStd(std::span<const double> values);
// Divides by n - 1.
double SampleStd(std::span<const double> values);

// The value below which the fraction `p`, from 0 to 1, of the values lies: linear interpolation between the
// order statistics around index p * (n - 1), which is type 7 of Hyndman and Fan (1996), and the default of
// numpy and R. With fewer than 1 / (1 - p) values this is an interpolation close to the maximum.
double Percentile(std::span<const double> values, double p);
double Median(std::span<const double> values);

// How many values lie further from the median than both `mads` scaled median absolute deviations (1.4826 *
// MAD, the standard deviation of a normal distribution) and the fraction `min_relative` of the median. The
// second bound is for samples that hardly vary, where the first one means nothing.
size_t CountOutliers(std::span<const double> values, double mads, double min_relative);

struct Interval {
  double low = 0;
  double high = 0;
};

// How two samples belong together.
enum class Pairing {
  // value i of both was measured in the same round, seconds apart, in random order
  kRounds,
  // measured one after the other, or without any order
  kNone,
};

// Two samples whose means are compared; or one whose mean is in question, such as differences of rounds.
// Values of one launch of a program stand together, launch after launch.
struct ComparedSamples {
  std::vector<double> sample;
  std::vector<double> baseline;  // empty: there is one sample
  Pairing pairing = Pairing::kNone;
  // How many values each launch has; empty: all are of one. With kRounds the baseline has the same.
  std::vector<size_t> launches{};
  std::vector<size_t> baseline_launches{};
};

// Mean(sample) / Mean(baseline) - 1; NaN for a baseline of 0. Of means, because what a training run pays is
// the sum of its steps.
double RelativeDifference(std::span<const double> sample, std::span<const double> baseline);

// From here on the interval holds the truth as often as it says, for samples as skewed as steps are.
inline constexpr size_t kFewestForInterval = 10;

struct BootstrapOptions {
  int resamples = 2000;
  uint64_t seed = 1;  // the same seed gives the same interval, on every machine
};

// 95 % intervals for relative differences of means, or for means.
//
// With kRounds the two samples of a comparison keep their rounds: what a machine's drift adds to both then
// cancels as it does in the measured difference. With kNone nothing ties them.
//
// Keeps resamples from one comparison to the next: rows of a table have as many steps each, and the same
// seed. Not thread safe.
class Bootstrap {
 public:
  explicit Bootstrap(const BootstrapOptions& options) : options_(options) {}

  // One interval for each comparison, which hold all their truths at once in 95 cases of 100 (92 for 15
  // comparisons of 10 rounds), whatever depends on what: what they exclude is shown, however many they are,
  // and whichever of them is picked for what it shows. The logarithm of a ratio of means, which knows no less
  // than nothing (a mean itself where there is one sample), gets so many standard errors to both sides as
  // none is off by, each in its own, in 95 % of the resamples (max-|t| bootstrap: Westfall and Young,
  // Resampling-based multiple testing, 1993), and as many more as Student's t has.
  //
  // With several launches the error is that of the launches' means: what a launch has of its own (where
  // memory lay, how clocks and ports fell) is as much of it as what differs from step to step, which is its
  // least. How many times that least it is, is taken to be the same for all comparisons in rounds, with
  // Student's t for all their launches together: three launches of a single comparison say next to nothing.
  // Their resamples would be too few different ones (of 3 launches of 4 strategies intervals held 78 % of
  // what they said), so there are as many errors as comparisons that do not depend on each other have
  // (Sidak). With one launch nothing is known of the next one.
  //
  // NaN for fewer than two values of a sample, with kRounds for different numbers of them, for values to
  // be divided that are not positive, and for a launch without values.
  std::vector<Interval> Simultaneous(std::span<const ComparedSamples> comparisons);

 private:
  // What resamples are drawn for.
  struct Shape {
    size_t sample_size = 0;  // or rounds
    size_t apart = 0;        // the baseline's size where it is not resampled in the same rounds
    bool operator==(const Shape&) const = default;
  };

  // Fills resampled_ with the ratio of means, or the mean, in each resample.
  void Resample(const ComparedSamples& samples);

  const BootstrapOptions options_;
  std::vector<double> resampled_;
  // How often each value is in each resample, for blocks of resamples.
  std::vector<double> counts_;
  Shape kept_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_STATISTICS_H_
