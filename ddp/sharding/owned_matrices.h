#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan for Muon, in which each rank updates whole matrices: no part of a bucket ends inside a matrix.
struct OwnedPlan {
  BucketPlan plan;
  // The work of updating matrices on the rank that has most, divided by the mean over ranks.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) of `order` into buckets, each of which has one part for each of
// `num_parts` ranks. Matrices are assigned to parts one by one, the largest first, each to the part with the
// least work so far, counted in multiplications of model::Muon. Shorter parts are padded to the length of the
// longest. A bucket takes as many consecutive matrices as fit into `bucket_bytes` with at most a tenth of
// padding; if no number of matrices does, it exceeds `bucket_bytes` and takes the smallest number that needs
// at most a tenth of padding. If the last bucket needs more padding, it is merged with as few buckets before
// it as suffice. All other parameters are in buckets of PlanPlaced. The buckets are sorted by the position in
// `order` of their last parameter.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
