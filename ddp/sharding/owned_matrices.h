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

// Packs the matrices (model::IsMatrix) of `order` into buckets, each of which has one part for each of
// `num_parts` ranks. PlanOwned assigns the matrices of a bucket to its parts, the matrix with the most work
// first. Each matrix goes to the part with the least work so far. The work of a matrix is the number of
// multiplications in one Newton-Schulz iteration of Muon; all iterations on one matrix have equally many.
// Each rank gets one part of every bucket. Of each bucket, the part with the most work goes to the rank that
// has the least work from the buckets packed before this bucket. The part with the second most work goes to
// the rank with the second least work, and so on. Shorter parts of a bucket are padded to the length of its
// longest part. A bucket takes as many of the next matrices of `order` as fit into `bucket_bytes` bytes with
// little padding: at most a tenth as many padding elements as the bucket's matrices have elements. If no
// number of matrices fits with little padding, the bucket exceeds `bucket_bytes`, and takes the fewest
// matrices that need little padding. If no number of matrices needs little padding, the bucket takes all
// matrices that are left, and is merged with the fewest buckets before it with which it needs little padding.
// If no such merge exists, the bucket keeps its padding. PlanPlaced packs the parameters that are not
// matrices into buckets of their own. The buckets are in the order in which their last parameters occur in
// `order`.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
