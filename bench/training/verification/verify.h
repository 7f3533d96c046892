#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/autograd.h"

// Checks whether a strategy computed the results that one process computes on the whole batch.
namespace gradsync::bench {

// These functions return the gradients or the values of the parameters, in the parameters' order, and copies
// of their current contents, on the CPU.
std::vector<model::Tensor> GradsOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> ValuesOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyGrads(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyValues(std::span<model::Parameter* const> params);

// The error of a tensor is |found - expected| / |expected| in Euclidean norms. The error is infinite if a
// number is not finite. The error of an agreement is the largest error of all tensors and ranks. The
// denominator is at least 1 % of the average norm of a tensor with this number of elements, so that a
// gradient that is zero up to rounding does not fail (for example, of the query projection if all tokens are
// equal).
//
// The error of a gradient is its distance from the reference. The error of a parameter is its distance from
// the optimizer's result for the gradients found, because AdamW turns a gradient that is nearly zero into a
// step in either direction.
struct Agreement {
  double grad_rel_error = 0;
  double param_rel_error = 0;
  std::string worst_grad = {};  // the tensor with the largest error
  std::string worst_param = {};
  bool replicas_equal = false;  // gradients and parameters are bitwise equal on all ranks
  double tolerance = 0;         // the largest allowed error
  // The names, for messages, of the results with which gradients and parameters are compared.
  const char* grad_source = "a single process's";
  const char* param_source = "what the optimizer makes of its gradient";

  bool grads_equal() const { return grad_rel_error <= tolerance; }
  bool params_equal() const { return param_rel_error <= tolerance; }
  bool passed() const { return grads_equal() && params_equal() && replicas_equal; }
};

void SetChecks(const Agreement& agreement, CheckFields& checks);

// Returns one line with the variant, the tensor and the error; an empty text if the agreement passed.
std::string DescribeFault(const std::string& variant, const Agreement& agreement);

// Returns the ranks whose tensors differ in any bit from the tensors of the majority of ranks; without a
// majority, from the tensors of rank 0. The result is equal on all ranks. Compares hashes.
std::vector<int> RanksThatDiffer(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                                 const model::DevicePtr& device);

// The largest error of all ranks, and the first tensor that has this error. The result is equal on all ranks.
// Throws CollectiveError.
struct LargestError {
  double error = 0;
  size_t index = 0;
};
LargestError FindLargestError(std::span<const model::Tensor> found, std::span<const model::Tensor> expected,
                              comm::ProcessGroup& group, const model::DevicePtr& device);
// Returns whether these tensors are bitwise equal on all ranks.
inline bool EqualOnAllRanks(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                            const model::DevicePtr& device) {
  return RanksThatDiffer(tensors, group, device).empty();
}

// Compares gradients with `reference`, which every rank has, and parameters with their values after
// `step_again`, which repeats the optimizer's step with these gradients from the weights before the step. The
// agreement is equal on all ranks. Throws CollectiveError.
Agreement Verify(std::span<model::Parameter* const> params, std::span<const model::Tensor> reference,
                 const std::function<void()>& step_again, double tolerance, comm::ProcessGroup& group);

// Returns the largest error that rounding can cause in gradsync's own strategies. The reference computes
// equal batches with equal kernels and an equal loss scale, so the gradients of single ranks are bitwise
// equal in both, for any type of activations. Only the order of their sum differs. The error of a sum of n
// terms, one term per rank, grows like u sqrt(n). The unit roundoff is u = 2^-24 for gradients in f32;
// gradients are f32 also if activations (`dtype`) are bf16. A factor covers gradients of ranks that nearly
// cancel, and AdamW, which divides by the gradient's size. A missing or doubled gradient is an error of about
// 1.
double Tolerance(model::DType dtype, int64_t num_terms);

// Returns the tolerance for a peer, whose kernels add products in another order: each position of the batch
// is one term of every sum. The factor also covers the depth of the model.
//
// With activations in bf16, the largest errors come from rounding the gradients of activations after each
// operation, by at most u = 2^-8 with a random sign. The errors of n operations add up to sqrt(n) u, and a
// sum over positions does not increase them. 16 u covers the about one hundred operations between the loss
// and the first layer.
double PeerTolerance(model::DType dtype, int64_t positions);
// Returns the tolerance for a peer in f32 whose matrix products round their factors to TF32, with u = 2^-11.
// Such an error is relative to each term of a sum, so it does not grow with the batch. The error grows with
// the number of layers; the tolerance covers 64 successive roundings.
double Tf32PeerTolerance(int64_t positions);

}  // namespace gradsync::bench
