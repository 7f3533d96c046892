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
  // The number of Muon's multiplications in an update on the rank with most of them, divided by the mean over
  // ranks; 1 if there are no matrices.
  double largest_work = 1;
};

// Packs the matrices (model::IsMatrix) of `order` into buckets, each of which has one part for each of
// `num_parts` ranks. The matrices of a bucket are assigned to its parts one by one, the one with the most
// work first, each to the part with the least work so far. Work is the number of multiplications of
// model::Muon. The part with the most work goes to the rank with the least work in the buckets packed before.
// Shorter parts of a bucket are padded to the length of its longest. A bucket takes as many consecutive
// matrices of `order` as fit into `bucket_bytes` with padding of at most a tenth of their elements. If no
// number of matrices does, it takes the smallest number that needs no more padding than this, even if it then
// exceeds `bucket_bytes`. The last bucket takes all matrices that are left. If it needs more padding, it is
// merged with as few buckets before it as suffice; if none suffice, it stays as it is. All other parameters
// are packed by PlanPlaced. The buckets are sorted by the position in `order` of the parameter that comes
// last there.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
