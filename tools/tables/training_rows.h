#ifndef GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
#define GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_

#include <string>

#include "tools/records/measurement.h"

// What all tables about training say of a measurement.
namespace gradsync::tools {

// Whether it computed what the reference did: "yes", "not checked", "no (1.2e-03)", ...
std::string EqualityOf(const Measurement& measurement);

// What all ranks together sent, per second of communication. Where the communication itself was not timed, a
// strategy that waits for all of it spends at least that long. NaN if unknown.
double BusBandwidthOf(const Measurement& measurement);

// Of a step, in the order of its buckets; NaN where the record does not say: of a published table, or of a
// peer, which tells nothing of its communication.
double NumCollectives(const Measurement& measurement);
// And how many bytes they moved, see bench/records/schema.cc.
double SentBytes(const Measurement& measurement);

// Memory of the device at the peak of the timed steps, for each parameter of the model; NaN if the buffers of
// other strategies were there as well, or nobody knows.
double PeakBytesPerParameter(const Measurement& measurement);

// Model operations per second, of all ranks. NaN if unknown.
double FlopsPerSecond(const Measurement& measurement);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_TRAINING_ROWS_H_
