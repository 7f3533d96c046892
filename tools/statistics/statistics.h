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
// Several percentiles of the same values at the price of one sort.
void Percentiles(std::span<const double> values, std::span<const double> ps, std::span<double> results);

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

// Two samples whose means are compared.
struct ComparedSamples {
  std::span<const double> sample;
  std::span<const double> baseline;
  Pairing pairing = Pairing::kNone;
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

// A 95 % bootstrap interval (Efron 1979) for RelativeDifference.
//
// With kRounds, whole rounds are resampled: what a machine's drift adds to both samples of a round then
// cancels as it does in the measured difference, while resampling the two apart would count the drift as
// uncertainty of the difference. With kNone the two are resampled independently, because nothing ties value i
// of one to value i of the other.
//
// The interval lies between percentiles of the resampled differences, taken further out for a small number of
// steps ("expanded percentile interval", Hesterberg, What teachers should know about the bootstrap, 2015):
// the plain one is too narrow there, as an interval for a mean with 1.96 in place of Student's t is.
//
// NaN if either sample has fewer than two values, if, with kRounds, their numbers differ, or if a resample
// has no difference because the baseline's values in it are 0.
//
// Keeps the resamples from one call to the next: rows of a table have as many steps each, and the same seed.
// Not thread safe.
class Bootstrap {
 public:
  explicit Bootstrap(const BootstrapOptions& options) : options_(options) {}

  Interval RelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                              Pairing pairing);

  // One interval for each comparison, which hold all their truths at once in 95 cases of 100 (92 for 15
  // comparisons of 10 rounds), whatever depends on what: what they exclude is shown, however many they are,
  // and whichever of them is picked for what it shows. The logarithm of a ratio of means, which knows no less
  // than nothing, gets so many standard errors to both sides as none is off by, each in its own, in 95 % of
  // the resamples (max-|t| bootstrap: Westfall and Young, Resampling-based multiple testing, 1993); for few
  // steps as many more as Student's t has, as above. The standard errors are those of all resamples: a
  // resample's own are next to nothing where it has left out the one step that took long. NaN as above, and
  // for samples whose mean is not positive.
  std::vector<Interval> Simultaneous(std::span<const ComparedSamples> comparisons);

 private:
  // Fills differences_. False if there is no interval.
  bool Resample(const ComparedSamples& samples);

  // What resamples are drawn for.
  struct Shape {
    size_t sample_size = 0;  // or rounds
    size_t apart = 0;        // the baseline's size where it is not resampled in the same rounds
    bool operator==(const Shape&) const = default;
  };

  const BootstrapOptions options_;
  std::vector<double> differences_;
  // How often each value is in each resample, for blocks of resamples.
  std::vector<double> counts_;
  Shape kept_;
};

// For a single difference.
Interval BootstrapRelativeDifference(std::span<const double> sample, std::span<const double> baseline,
                                     Pairing pairing, const BootstrapOptions& options = {});

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STATISTICS_STATISTICS_H_
