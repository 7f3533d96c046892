#ifndef GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
#define GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_

#include <string>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/fields.h"

// What all tables about training say of a measurement.
namespace gradsync::tools {

// Whether it computed what the reference did: "yes", "not checked", "no (1.2e-03)", ...
std::string EqualityOf(const Measurement& measurement);

// What all ranks together sent, per second of communication. Where the communication itself was not timed, a
// strategy that waits for all of it spends at least that long. NaN if unknown.
double BusBandwidthOf(const Measurement& measurement);

// Whether its steps were taken in turn with other strategies', so that value i of each is of one
// round.
bool IsInterleaved(const Measurement& measurement);

// Of a step, in the order of its buckets; NaN where the record does not say: of a published table, or of a
// peer, which tells nothing of its communication.
double NumCollectives(const Measurement& measurement);

// Memory of the device at the peak of the timed steps, for each parameter of the model; NaN if the buffers of
// other strategies were there as well, or nobody knows.
double PeakBytesPerParameter(const Measurement& measurement);

// By rounds if both ran interleaved with the same number of steps.
Pairing PairingOf(const Measurement& a, const Measurement& b);

// Intervals of a table's differences to the baseline, and what they are resampled from.
class BaselineIntervals {
 public:
  explicit BaselineIntervals(const BootstrapOptions& options) : options_(options), bootstrap_(options) {}

  // Of the mean of `times` against that of the baseline's `base`, in percent, for this row alone. NaN for the
  // baseline itself and for what was published without samples.
  Interval PercentOf(const Measured& row, const Series& times, const Series& base);

  // For rows whose intervals hold at once: takes the next one, and says whether it has one ...
  bool Add(const Measured& row, const Series& times, const Series& base);
  // ... and gives all, in percent, in the order of Add.
  std::vector<Interval> Simultaneous();

  // "bootstrap of rounds (2000 resamples). ..."
  std::string Description() const;

 private:
  struct Samples {
    std::vector<double> times;  // empty: no interval
    std::vector<double> base;
    Pairing pairing = Pairing::kNone;
  };
  Pairing Note(const Measured& row);

  const BootstrapOptions options_;
  Bootstrap bootstrap_;
  std::vector<Samples> samples_;
  bool resampled_rounds_ = false;
  bool resampled_steps_ = false;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
