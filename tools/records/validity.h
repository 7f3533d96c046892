#ifndef GRADSYNC_TOOLS_RECORDS_VALIDITY_H_
#define GRADSYNC_TOOLS_RECORDS_VALIDITY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/records/measurement.h"

// Reasons not to believe a row. Each is a function that returns what the row's cell says about it, and
// nothing if there is no reason.
namespace gradsync::tools {

// A measurement, and what the row shows of it.
struct Judged {
  const Measurement& measurement;
  const Series& times;                    // the row's main times
  double bus_bytes_per_second = 0;        // see BusBandwidth; NaN if unknown
  const Measurement* baseline = nullptr;  // that the row is compared with; null if unknown
};

// Bytes per second that each rank's link has to carry for an all-reduce of `bytes` in `seconds`: 2 (n - 1) /
// n times bytes / seconds (nccl-tests, doc/PERFORMANCE.md). With one rank, where nothing is sent, bytes /
// seconds, as if it were. NaN without bytes or time.
double BusBandwidth(double bytes, double seconds, int64_t world_size);

// More than this no link between the ranks carries: the record's own link.limit_bytes_per_second; else, by
// GPU and backend, a bound above the fastest known.
double LimitBytesPerSecond(const bench::Record& record);

// "world=1": a single rank communicates with nobody.
std::optional<std::string> WorldOfOne(const Judged& judged);
// "shared-gpu:2": several ranks compute on one GPU, and nccl between them goes over sockets.
std::optional<std::string> SharedGpu(const Judged& judged);
// "ranks-missing:1/4": not every rank has left a record, so the maximum over ranks is not known.
std::optional<std::string> RanksMissing(const Judged& judged);
// "steps-differ": ranks have different numbers of steps; those that all have are used.
std::optional<std::string> StepsDiffer(const Judged& judged);
// "n<10": too few steps for the interval of the difference (see statistics.h).
std::optional<std::string> TooFewForInterval(const Judged& judged);
// "n<100": too few steps for p99, which then is an interpolation close to the maximum.
std::optional<std::string> TooFewForP99(const Judged& judged);
// "too-fast:779GB/s": more than memory or link can carry.
std::optional<std::string> TooFast(const Judged& judged);
// "outliers:2": steps beyond ten scaled median absolute deviations and 5 % of the median.
std::optional<std::string> Outliers(const Judged& judged);
// "ranks-disagree": the ranks' own mean times differ by more than 10 %.
std::optional<std::string> RanksDisagree(const Judged& judged);
// "oversubscribed": on the CPU, the ranks of a host have more threads than it has CPUs for them.
std::optional<std::string> Oversubscribed(const Judged& judged);
// "wrong:3": elements of a result that were not as expected.
std::optional<std::string> WrongElements(const Judged& judged);
// "unequal": gradients or parameters were compared, and are not what they should be. Not with `none`.
std::optional<std::string> Unequal(const Judged& judged);
// "drifts": `none` averages nothing, so its replicas part.
std::optional<std::string> Drifts(const Judged& judged);
// "traced": every step also wrote a trace.
std::optional<std::string> Traced(const Judged& judged);
// "published": statistics from elsewhere, without their samples.
std::optional<std::string> Published(const Judged& judged);
// "rank0-only": times of one rank, where others may have taken longer.
std::optional<std::string> RankZeroOnly(const Judged& judged);
// "unsynced-timer": the time of synchronisation began before backward had ended.
std::optional<std::string> UnsyncedTimer(const Judged& judged);
// "untimed-copies": copies into and out of a flat buffer were left out of the time of synchronisation.
std::optional<std::string> UntimedCopies(const Judged& judged);
// "no-broadcast": nobody gave all ranks the same first weights and buffers.
std::optional<std::string> NoBroadcast(const Judged& judged);
// "no-optimizer": a step ended with the synchronisation.
std::optional<std::string> NoOptimizer(const Judged& judged);
// "units-differ:4x": one buffer size on the label, but buckets of another number of bytes than the
// baseline's.
std::optional<std::string> UnitsDiffer(const Judged& judged);
// "dirty": built from files that differ from the commit.
std::optional<std::string> Dirty(const Judged& judged);

// What all of them say, separated by spaces.
std::string FlagsOf(const Judged& judged);

// Collects the flags of a table, and explains those that occur.
class Legend {
 public:
  void Add(std::string_view flags);
  // A line each: "`n<100`: ...".
  std::vector<std::string> Lines() const;

 private:
  std::set<std::string, std::less<>> seen_;  // without what follows ":"
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_VALIDITY_H_
