#ifndef GRADSYNC_TOOLS_RECORDS_MOMENTS_H_
#define GRADSYNC_TOOLS_RECORDS_MOMENTS_H_

#include <vector>

#include "bench/records/record.h"
#include "tools/records/measurement.h"

namespace gradsync::tools {

inline constexpr double BucketTimes::*kBucketTimes[] = {&BucketTimes::ready,   &BucketTimes::queued,
                                                        &BucketTimes::waiting, &BucketTimes::moving,
                                                        &BucketTimes::ended,   &BucketTimes::exposed};

// From the moments of all ranks' collectives: `measurement`'s buckets, and its series kCommWaiting and
// kCommMoving. Nothing if a rank has none, or not of all steps and buckets. `measurement` has its other
// series already. Ranks begin a step together, so moments since its beginning are of one clock, but for the
// time that a barrier takes.
void TakeMoments(const std::vector<bench::Record>& ranks, Measurement* measurement);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_MOMENTS_H_
