#pragma once

#include <cstddef>
#include <span>

#include "ddp/buckets/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// A plan that packs parameters into buckets, each of which is divided into one part for each rank. Each
// matrix (model::IsMatrix) lies whole in one part.
struct OwnedPlan {
  BucketPlan plan;
  // The number of multiplications in Muon's Newton-Schulz iterations on the busiest rank, divided by the mean
  // over ranks; 1 without matrices.
  double largest_work = 1;
};

// Packs the parameters in `order` into buckets of `num_parts` parts, one for each rank. The caller must pad
// each bucket by PadToParts. Matrices are assigned to parts so that the optimizer Muon has about equal work
// on all ranks. A bucket has at most `bucket_bytes` bytes, or only one parameter. A bucket of matrices may
// also be larger, to keep its padding, if possible, within 10 % of the elements of its matrices. No bucket
// contains both matrices and other parameters. The buckets are sorted by the position of their last parameter
// in `order`.
OwnedPlan PlanOwned(std::span<model::Parameter* const> order, int num_parts, size_t bucket_bytes);

}  // namespace gradsync::ddp
