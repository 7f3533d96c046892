#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan for Muon, in which each rank updates whole matrices: no part of a bucket ends inside a matrix.
struct OwnedPlan {
  BucketPlan plan;
  // The multiplications of Muon on the rank that has most of them, divided by the mean over ranks.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) of `order` into buckets, each of which has one part for each of
// `num_parts` ranks. Matrices are assigned to parts one by one, the one with the most work first, each to the
// part with the least work so far. Work is the number of multiplications of model::Muon. Shorter parts are
// padded to the length of the longest. A bucket takes as many consecutive matrices as fit into `bucket_bytes`
// with padding of at most a tenth of the matrices' elements. If no number of matrices does, the bucket
// exceeds `bucket_bytes` and takes the smallest number that needs no more padding than this. If the last
// bucket needs more padding, it is merged with as few buckets before it as suffice. All other parameters are
// packed by PlanPlaced. The buckets are sorted by the position in `order` of their last parameter.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
