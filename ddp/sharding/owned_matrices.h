#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan for the optimizer Muon, which updates whole matrices: each matrix (model::IsMatrix) lies whole in
// one rank's part of a bucket.
struct OwnedPlan {
  BucketPlan plan;
  // The number of Muon's multiplications in an update, on the rank with the most of them, divided by the mean
  // over ranks; 1 if there are no matrices.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) of `order` into buckets, each of which has one part for each of
// `num_parts` ranks. The matrices of a bucket are assigned to its parts one by one, the one with the most
// work first, each to the part with the least work so far. Work is the number of multiplications with which
// model::Muon updates a matrix. The part with the most work goes to the rank that has the least work in the
// buckets packed before, the next part to the rank with the second least, and so on. Shorter parts of a
// bucket are padded to the length of its longest. A bucket takes the next matrices of `order`: as many as fit
// into `bucket_bytes` with little padding, which is at most a tenth of their elements. If no number of
// matrices fits with little padding, the bucket exceeds `bucket_bytes`, and takes the fewest matrices that
// need little padding. If no number needs little padding, it takes all matrices that are left, and is merged
// with the fewest buckets before it that give a bucket with little padding. If no merge does, it keeps its
// padding. All other parameters are packed by PlanPlaced. The buckets of the plan are sorted by the position
// in `order` of their last parameter.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
