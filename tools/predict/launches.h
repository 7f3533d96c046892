#ifndef GRADSYNC_TOOLS_PREDICT_LAUNCHES_H_
#define GRADSYNC_TOOLS_PREDICT_LAUNCHES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "bench/records/record.h"
#include "tools/predict/calibrate.h"
#include "tools/predict/link_costs.h"

// What the ranks' records of one launch of one variant, or of one collective, say together; in seconds.
namespace gradsync::tools {

using Launch = Records;

std::vector<Launch> LaunchesOf(const Records& records);

bool Has(const bench::Record& record, std::initializer_list<bench::SampleName> names);
inline double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }
std::vector<double> SecondsOf(const bench::Record& record, bench::SampleName name);
// Trimmed over steps, averaged over ranks.
double MeanOver(const Launch& launch, bench::SampleName name);

// When a rank begins a step, on a clock of all ranks. Clocks of several hosts have nothing in common; ranks
// are then taken to begin together.
double BeginOf(const bench::Record& rank, const Launch& launch, size_t step);
// From there until backward has ended.
double ComputedSeconds(const bench::Record& rank, size_t step);

// When the ranks of a step are done with what takes each so long from its own begin: after the last rank's
// begin, on average over ranks, and how much later than that the last rank is.
struct Ends {
  double mean = 0, late = 0;
};
Ends EndsOf(const Launch& launch,
            const std::function<double(const bench::Record& rank, size_t step)>& seconds);

// A collective of a variant as it is in a step: a strategy without buckets sends tensors as they lie.
CollectiveKind KindInStep(const bench::Record& record, CollectiveKind kind);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_LAUNCHES_H_
