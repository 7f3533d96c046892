#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Buckets whose equal parts divide no matrix.
struct OwnedPlan {
  BucketPlan plan;
  double largest_work = 1;  // of an update of matrices: the largest rank's, over the mean of all ranks
};

// Packs the matrices (model::IsMatrix) of `order` into buckets of `num_parts` parts, the largest first, each
// into the part with the least work. All parts of a bucket are as long as its longest; what they lack is
// padding. A bucket is the longest run of matrices within `bucket_bytes` whose padding is at most a tenth; if
// there is none, the shortest run beyond. A rest that needs more padding joins as many buckets before it as
// help. The work is the multiplications of model::Muon. All other parameters are in buckets of PlanPlaced.
// The buckets are in the order in which gradients become ready, if `order` is.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
