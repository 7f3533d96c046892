#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/autograd.h"

// Functions that check the gradients and weights that a strategy computes in a training step.
namespace gradsync::bench {

// GradsOf and ValuesOf return the gradient and value tensors of `params`, not copies, in the order of
// `params`. CopyGrads and CopyValues return copies of these tensors in CPU memory.
std::vector<model::Tensor> GradsOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> ValuesOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyGrads(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyValues(std::span<model::Parameter* const> params);

// The errors of a strategy's gradients and weights after a training step. The error of a tensor is |found -
// expected| / |expected|, with Euclidean norms. The divisor is at least 0.01 r sqrt(n), for a tensor of n
// elements; r is the root mean square of all expected elements. The error is infinite if the found or the
// expected tensor contains NaN or an infinite number. If the divisor is 0, the error is 0 for equal tensors,
// else infinite.
struct Agreement {
  double grad_rel_error = 0;    // the largest error of a gradient on any rank
  double param_rel_error = 0;   // the largest error of a parameter's weights on any rank
  std::string worst_grad = {};  // name of the parameter whose gradient has the largest error
  std::string worst_param = {};
  bool replicas_equal = false;  // parameters, and gradients if compared, are bitwise equal on all ranks
  double tolerance = 0;         // the largest allowed error
  // DescribeFault's text says that a wrong gradient differs from `grad_source`, and that a wrong parameter
  // differs from `param_source`.
  const char* grad_source = "a single process's";
  const char* param_source = "what the optimizer makes of its gradient";

  bool grads_equal() const { return grad_rel_error <= tolerance; }
  bool params_equal() const { return param_rel_error <= tolerance; }
  bool passed() const { return grads_equal() && params_equal() && replicas_equal; }
};

void SetChecks(const Agreement& agreement, CheckFields& checks);

// Returns an error message of one line, which begins with `variant`; empty if agreement.passed(). The line is
// about a wrong gradient if there is one, else about a wrong parameter, else about ranks that differ bitwise.
std::string DescribeFault(const std::string& variant, const Agreement& agreement);

// Returns the ranks outside the largest group of ranks with bitwise equal tensors. Of equally large groups,
// the one with the lowest rank counts as the largest. All ranks must call RanksThatDiffer, and all get the
// same result.
std::vector<int> RanksThatDiffer(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                                 const model::DevicePtr& device);

// The result of FindLargestError: the largest error (see Agreement) of a tensor on any rank, and the tensor's
// index in `found`. The index is 0 if all errors are 0. All ranks must call FindLargestError.
struct LargestError {
  double error = 0;
  size_t index = 0;
};
LargestError FindLargestError(std::span<const model::Tensor> found, std::span<const model::Tensor> expected,
                              comm::ProcessGroup& group, const model::DevicePtr& device);
inline bool EqualOnAllRanks(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                            const model::DevicePtr& device) {
  return RanksThatDiffer(tensors, group, device).empty();
}

// Compares the gradients of `params` with `reference`, the gradients that one process computes from all
// ranks' batches. Then compares the weights in `params` with the weights that `step_again` writes into
// `params`. `step_again` must restore the weights from before the training step, and repeat the optimizer's
// step with the gradients in `params`. Verify also checks whether the gradients and weights are bitwise equal
// on all ranks. All ranks must call Verify after the training step, and all get the same result. Throws
// CollectiveError if communication fails, and InvalidInput if `params` is empty.
Agreement Verify(std::span<model::Parameter* const> params, std::span<const model::Tensor> reference,
                 const std::function<void()>& step_again, double tolerance, comm::ProcessGroup& group);

// Returns the largest error (see Agreement) that checks usually allow for a strategy of gradsync. The result
// is 512 u sqrt(num_terms), where the unit roundoff u is 2^-53 if `dtype` is f64, else 2^-24. `num_terms` is
// the number of ranks times the number of backward passes of one rank in a step.
double Tolerance(model::DType dtype, int64_t num_terms);

// Returns the largest error (see Agreement) that checks usually allow for a strategy of PyTorch. The result
// is Tolerance(dtype, positions) for f32 and f64, and 16 * 2^-8 for bf16. `positions` is the number of tokens
// or images in the batches of all ranks.
double PeerTolerance(model::DType dtype, int64_t positions);
// Returns the largest error that checks usually allow in f32 for a strategy of PyTorch whose matrix products
// use TF32. The result is PeerTolerance(f32, positions), but at least 64 * 2^-11. `positions` is the number
// of tokens or images in the batches of all ranks.
double Tf32PeerTolerance(int64_t positions);

}  // namespace gradsync::bench
