#ifndef GRADSYNC_BENCH_TRAINING_VERIFY_H_
#define GRADSYNC_BENCH_TRAINING_VERIFY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

// Whether a strategy computed what one process computes on the whole batch.
namespace gradsync::bench {

// Copies of gradients and parameters, on the CPU, in the order of the parameters. Empty on ranks other than
// 0.
struct Reference {
  std::vector<model::Tensor> grads;
  std::vector<model::Tensor> values;
};

// Copies what the parameters hold now.
Reference CopyState(std::span<model::Parameter* const> params);

// An error is that of one tensor, |found - expected| / |expected| in Euclidean norms, and the largest one of
// all tensors and ranks counts. Infinite where a number is not finite. The norm below the line is at least a
// hundredth of what a tensor of that many elements has on average: where a gradient vanishes (the query
// projection's does when all tokens are alike) there is nothing but rounding to compare.
struct Verdict {
  double grad_rel_error = 0;
  double param_rel_error = 0;
  std::string worst_grad;  // the tensor with that error
  std::string worst_param;
  bool replicas_equal = false;  // gradients and parameters are bitwise the same on all ranks
};

// Compares every rank's gradients and parameters with rank 0's reference, which is sent one tensor at a time.
// Every rank gets the same verdict. Throws CollectiveError.
Verdict Verify(std::span<model::Parameter* const> params, const Reference& reference,
               comm::ProcessGroup& group);

// The largest error that rounding explains. The strategies and the reference add the same products in another
// order: each position of the batch is one term of every sum, and the error of a sum of n terms grows like u
// sqrt(n), with the unit roundoff u = 2^-24 for f32. The factor covers the depth of the model and what an
// optimizer step that divides by the gradient's own size (AdamW) makes of it. A forgotten or doubled gradient
// is an error of about 1.
//
// With activations in bf16 what counts is that their gradients are rounded after each operation, by at most u
// = 2^-8 and with either sign. A rank's are those of the reference times the number of ranks (but for `core`,
// which scales the loss alike), and unless that is a power of two they are not rounded alike. Errors of n
// operations add up to sqrt(n) u, and a sum over positions makes that no larger; 16 u covers the some hundred
// operations between the loss and the first layer.
double Tolerance(model::DType dtype, int64_t positions);
// Of f32 whose matrix products round their factors to TF32, with u = 2^-11. Where the world's size is no
// power of two, strategies that scale the loss round other factors. Such an error is relative to each term of
// a sum, so the batch does not add to it; layers do, and of at most 64 roundings one on the other.
double Tf32Tolerance(int64_t positions);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_VERIFY_H_
