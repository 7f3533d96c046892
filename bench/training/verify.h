#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/autograd.h"

// Whether a strategy computed what one process computes on the whole batch.
namespace gradsync::bench {

// The gradients or values of the parameters, in their order; and copies of what they are now, on the CPU.
std::vector<model::Tensor> GradsOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> ValuesOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyGrads(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyValues(std::span<model::Parameter* const> params);

// An error is that of one tensor, |found - expected| / |expected| in Euclidean norms, and the largest one of
// all tensors and ranks counts. Infinite where a number is not finite. The norm below the line is at least a
// hundredth of what a tensor of that many elements has on average: where a gradient vanishes (the query
// projection's does when all tokens are alike) there is nothing but rounding to compare.
//
// A gradient's error is its distance from the reference, a parameter's that from what the optimizer makes of
// the gradients found: of one that is nearly zero, AdamW makes a step in either direction.
struct Verdict {
  double grad_rel_error = 0;
  double param_rel_error = 0;
  std::string worst_grad = {};  // the tensor with that error
  std::string worst_param = {};
  bool replicas_equal = false;  // gradients and parameters are bitwise the same on all ranks
  double tolerance = 0;         // what the errors may be
  // What gradients and parameters are compared with.
  const char* grad_source = "a single process's";
  const char* param_source = "what the optimizer makes of its gradient";

  bool grads_equal() const { return grad_rel_error <= tolerance; }
  bool params_equal() const { return param_rel_error <= tolerance; }
  bool passed() const { return grads_equal() && params_equal() && replicas_equal; }
};

void SetChecks(const Verdict& verdict, CheckFields& checks);

// One line with the variant, the tensor and the error, if it did not pass; else empty.
std::string Fault(const std::string& variant, const Verdict& verdict);

// The ranks whose tensors differ, in any bit, from those of most ranks (from rank 0's, if no more have
// others); on all ranks the same. By hashes.
std::vector<int> RanksThatDiffer(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                                 const model::DevicePtr& device);

// The largest error of all ranks, and the first tensor that has it. Every rank gets the same. Throws
// CollectiveError.
struct LargestError {
  double error = 0;
  size_t index = 0;
};
LargestError LargestErrorOf(std::span<const model::Tensor> found, std::span<const model::Tensor> expected,
                            comm::ProcessGroup& group, const model::DevicePtr& device);
// Whether these tensors are bitwise the same on all ranks.
inline bool EqualOnAllRanks(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                            const model::DevicePtr& device) {
  return RanksThatDiffer(tensors, group, device).empty();
}

// Compares gradients with `reference`, which every rank has, and parameters with what they are after
// `step_again`, which lets the optimizer take its step once more, with these gradients, from the weights
// before it. Every rank gets the same verdict. Throws CollectiveError.
Verdict Verify(std::span<model::Parameter* const> params, std::span<const model::Tensor> reference,
               const std::function<void()>& step_again, double tolerance, comm::ProcessGroup& group);

// The largest error that rounding explains of gradsync's own strategies. The reference takes the same
// batches through the same kernels with the same loss scale, so that the gradients that are averaged are
// bitwise the same in both, whatever the activations' type. Only their sum has another order: the error of
// a sum of n terms, here one of each rank, grows like u sqrt(n), with the unit roundoff u = 2^-24 for
// gradients in f32, which they are with activations (`dtype`) in bf16, too. The factor covers where ranks'
// gradients nearly cancel, and what an optimizer step that divides by the gradient's own size (AdamW)
// makes of that. A forgotten or doubled gradient is an error of about 1.
double Tolerance(model::DType dtype, int64_t num_terms);

// The same for a peer, whose kernels add the same products in another order: each position of the batch is
// one term of every sum. The factor covers the depth of the model, too.
//
// With activations in bf16 what counts is that their gradients are rounded after each operation, by at most u
// = 2^-8 and with either sign. Errors of n operations add up to sqrt(n) u, and a sum over positions makes
// that no larger; 16 u covers the some hundred operations between the loss and the first layer.
double PeerTolerance(model::DType dtype, int64_t positions);
// The same for f32 whose matrix products round their factors to TF32, with u = 2^-11. Such an error is
// relative to each term of a sum, so the batch does not add to it; layers do, and of at most 64 roundings one
// on the other.
double Tf32PeerTolerance(int64_t positions);

}  // namespace gradsync::bench
