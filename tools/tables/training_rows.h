#ifndef GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
#define GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_

#include <string>
#include <string_view>

#include "tools/records/measurement.h"
#include "tools/statistics/statistics.h"

// What all tables about training say of a measurement.
namespace gradsync::tools {

// Of one kind of time, in seconds; NaN if there are no such samples.
double MeanOf(const Measurement& measurement, std::string_view samples);

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

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
