#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan that packs parameters into buckets, each of which is divided into one part for each rank. Each
// matrix (model::IsMatrix) lies whole in one part, because the optimizer Muon updates whole matrices.
struct OwnedPlan {
  BucketPlan plan;
  // The number of multiplications in Muon's matrix products on the rank with the most of them, divided by the
  // mean over ranks; 1 if there are no matrices.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) in `order` into buckets of consecutive matrices. Each bucket is
// divided into `num_parts` parts, one for each rank. PlanOwned assigns a bucket's matrices to parts one by
// one, in decreasing order of their work. Each matrix goes to the part whose matrices have the least work so
// far. The work of a matrix is the number of multiplications in one Newton-Schulz iteration of Muon. When a
// bucket is packed, its part with the most work goes to the rank with the least work in the earlier buckets.
// The part with the second most work goes to the rank with the second least work, and so on. Shorter parts of
// a bucket are padded to the length of its longest part. A bucket takes as many of the next matrices of
// `order` as fit into `bucket_bytes` bytes with a padding of at most 10 % of the matrices' elements. If both
// limits cannot be met, the bucket takes the fewest next matrices with at most 10 % padding, and exceeds
// `bucket_bytes`. If every number of matrices has more than 10 % padding, the bucket takes all remaining
// matrices. PlanOwned then merges this last bucket with the fewest buckets before it that reduce its padding
// to at most 10 %. If no merge does so, nothing is merged. PlanPlaced packs parameters that are not matrices
// into buckets of their own. All buckets are sorted by the position of their last parameter in `order`.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
