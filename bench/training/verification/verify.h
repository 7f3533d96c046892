#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "comm/process_group.h"
#include "model/autograd.h"

// The functions in this file check the gradients and weights that a strategy computes in a training step.
namespace gradsync::bench {

// GradsOf and ValuesOf return the gradients and the values of the parameters, in the order of `params`.
// CopyGrads and CopyValues return copies, on the CPU, which later steps do not change.
std::vector<model::Tensor> GradsOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> ValuesOf(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyGrads(std::span<model::Parameter* const> params);
std::vector<model::Tensor> CopyValues(std::span<model::Parameter* const> params);

// An Agreement object has the errors of a strategy's gradients and weights, compared with the expected
// gradients and weights. The error of a tensor is |found - expected| / |expected| in Euclidean norms, and
// infinite if a number is not finite. |expected| is replaced by 0.01 r sqrt(n) if that is larger, where n is
// the tensor's number of elements and r the root mean square of all elements of all expected tensors. Because
// of this lower limit for |expected|, a gradient that should be zero, but is not because of rounding, does
// not count as wrong. `grad_rel_error` is the largest error of the gradients on all ranks, and
// `param_rel_error` that of the parameters.
//
// In the function Verify, the expected gradients are those that one process computes from the batches of all
// ranks. The expected weights are those that the optimizer computes from the strategy's own gradients. The
// optimizer does not get the expected gradients, because AdamW turns a gradient that is nearly zero into a
// full step in either direction.
struct Agreement {
  double grad_rel_error = 0;
  double param_rel_error = 0;
  std::string worst_grad = {};  // name of the parameter whose gradient has the largest error
  std::string worst_param = {};
  bool replicas_equal = false;  // parameters, and gradients if compared, are bitwise equal on all ranks
  double tolerance = 0;         // the largest allowed error
  // `grad_source` and `param_source` name what the gradients and the parameters were compared with.
  // DescribeFault puts both names into its text.
  const char* grad_source = "a single process's";
  const char* param_source = "what the optimizer makes of its gradient";

  bool grads_equal() const { return grad_rel_error <= tolerance; }
  bool params_equal() const { return param_rel_error <= tolerance; }
  bool passed() const { return grads_equal() && params_equal() && replicas_equal; }
};

void SetChecks(const Agreement& agreement, CheckFields& checks);

// Returns an error message of one line: the variant, the parameter whose gradient has the largest error, and
// this error. If all gradients are right but a parameter is wrong, the line instead has the parameter with
// the largest error. If all gradients and parameters are right but differ bitwise between ranks, the line
// says so. Returns an empty text if agreement.passed().
std::string DescribeFault(const std::string& variant, const Agreement& agreement);

// Returns the ranks whose tensors differ from those that most ranks have. If several versions of the tensors
// are equally frequent, the lowest rank that has one of them counts as correct. Compares one 64-bit hash per
// rank, computed from all of the rank's `tensors`. All ranks must call RanksThatDiffer, and all get the same
// result.
std::vector<int> RanksThatDiffer(std::span<const model::Tensor> tensors, comm::ProcessGroup& group,
                                 const model::DevicePtr& device);

// The result of FindLargestError: the largest relative error (see Agreement) of a tensor in `found` on any
// rank, and the index of this tensor.
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

// Call Verify after a training step. Compares the gradients of `params` with the expected gradients
// `reference`. Then copies the weights in `params`, calls `step_again`, and compares the copy with the
// weights that `step_again` has put into `params`. `step_again` must restore the weights that `params` had
// before the training step, and repeat the optimizer's step with the gradients in `params`. Verify returns
// the largest errors over all ranks, so all ranks get the same result. Throws CollectiveError if
// communication fails, and InvalidInput if `params` is empty.
Agreement Verify(std::span<model::Parameter* const> params, std::span<const model::Tensor> reference,
                 const std::function<void()>& step_again, double tolerance, comm::ProcessGroup& group);

// Returns the largest relative error that checks allow in the gradients and weights of a gradsync strategy,
// compared with those of a single process. The single process computes each rank's gradient with the same
// kernels, so only the order in which these gradients are added differs. The rounding error of a sum of n
// terms grows like u sqrt(n), where n is `num_terms`, the number of backward passes of all ranks in a step.
// The unit roundoff u is 2^-53 for gradients in f64 and 2^-24 in f32; gradients are f32 if `dtype` (the type
// of the activations) is f32 or bf16. Tolerance returns 512 u sqrt(n), where n is `num_terms`. The factor 512
// covers gradients that nearly cancel, and AdamW, which divides by the gradient's size. By comparison, a
// gradient that is zero or twice the expected one has an error of 1.
double Tolerance(model::DType dtype, int64_t num_terms);

// Returns the largest relative error that rounding may cause in the gradients and weights of a strategy of
// PyTorch. A gradient is a sum over the `positions` (tokens or images) of all ranks' batches, and PyTorch
// adds the terms of this sum in another order than gradsync. For f32 and f64, PeerTolerance returns
// Tolerance(dtype, positions), the tolerance for sums of `positions` terms.
//
// With activations in bf16, most of the error of a weight's gradient comes from rounding the gradients of
// activations after each operation of backward, by at most u = 2^-8 with a random sign. The rounding errors
// of n operations add up to about sqrt(n) u. About 100 operations lie between the loss and the first layer,
// so the sum is about 10 u; PeerTolerance allows 16 u for bf16.
double PeerTolerance(model::DType dtype, int64_t positions);
// Returns the largest relative error (see Agreement) that checks allow in the f32 gradients and weights of a
// PyTorch strategy whose matrix products use TF32. TF32 rounds each factor of a product by at most 2^-11 of
// its value. The error that TF32 causes in gradients grows with the model's number of layers, and not with
// the size of the batch. Tf32PeerTolerance returns the larger of two errors: 64 * 2^-11, and PeerTolerance
// for f32 and `positions`.
double Tf32PeerTolerance(int64_t positions);

}  // namespace gradsync::bench
