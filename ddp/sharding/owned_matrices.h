#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan in which each rank updates whole matrices: no part of a bucket begins or ends inside a matrix.
struct OwnedPlan {
  BucketPlan plan;
  // Work of updating matrices on the rank that has most, divided by the mean of all ranks.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) of `order` into buckets of `num_parts` parts. Within a bucket,
// matrices are assigned one by one, the largest first, to the part with the least work; the work is the
// number of multiplications of model::Muon. Shorter parts are padded to the length of the longest part. A
// bucket takes as many consecutive matrices as fit into `bucket_bytes` with at most a tenth of padding. If no
// number of matrices does, the bucket takes the smallest number above `bucket_bytes` that does. If the last
// bucket needs more padding, it is merged with as few of the buckets before it as suffice. All other
// parameters are in buckets of PlanPlaced. If `order` is the order in which gradients become ready, so is the
// order of the buckets.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
