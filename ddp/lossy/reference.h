#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ddp/interface/context.h"
#include "model/tensor/tensor.h"

// A reference computes the results that a strategy must have if its gradients are not those of a single
// process (Agreement: lossy or drifting). It computes the equations of the strategy's paper, for all ranks in
// one process and in f64. Tests, and the check at the end of every benchmark, compare the strategy with its
// reference. References share no code with strategies, except initial random numbers.
namespace gradsync::ddp {

class Reference {
 public:
  using Vector = std::vector<double>;

  virtual ~Reference() = default;

  // Computes the next result for parameter p on every rank. If the strategy changes gradients, `of_ranks` has
  // the gradient of each rank, and the result is the gradient that all ranks have after Finish. If it
  // averages weights, `of_ranks` has each rank's weights at the end of a period (the steps between two
  // synchronisations), and the result is the weights with which all ranks begin the next period. A check must
  // call this once for each parameter in each step or period, because some references have state.
  virtual Vector Next(size_t p, std::span<const Vector> of_ranks) = 0;
};

struct ReferenceContext {
  std::span<const model::Shape> shapes;  // the shapes of the parameters, in forward order
  // Returns the weights of parameter p before the first step.
  std::function<Reference::Vector(size_t p)> weights;
  const StrategyOptions& options;
};

// Makes the reference of a strategy whose Traits::reference is not null. In the first steps, whose number
// StartOf() returns, the reference's result is the plain mean of the ranks' gradients.
std::unique_ptr<Reference> MakeReference(const Traits& traits, const ReferenceContext& context);

// If `rounds` is true, the reference rounds each rank's gradient to bf16, averages the results in f64, and
// rounds the mean to bf16. If `rounds` is false, it is the plain mean of the gradients or, for local SGD, of
// the weights.
std::unique_ptr<Reference> MeanReference(bool rounds);

// Makes the reference of PowerSGD, arXiv:1905.13727, algorithms 1 and 2. A gradient is a matrix (first
// dimension x all others), sent as two factors, P and Q, with `rank` columns each. A gradient is averaged
// directly unless `min_compression` times the number of elements of P and Q is below its own. The transposed
// Q of the p-th parameter, of shape (rank, columns of the gradient), begins as random numbers of
// FillTruncatedNormal with standard deviation 1, seed 0 and stream p of Purpose::kLowRank.
std::unique_ptr<Reference> PowerSgdReference(std::span<const model::Shape> shapes, double rank,
                                             double min_compression);

// Makes the reference of gradient dropping, arXiv:1704.05021, algorithm 1: each rank adds its gradient to its
// memory, sends the largest `percent` per cent of each tensor of this memory (at least one element; of equal
// elements the first), and keeps the other elements if `keeps_error` is true. Tensors of one dimension are
// averaged directly. The memory is f32, because the largest elements in f64 could be other elements.
std::unique_ptr<Reference> TopKReference(std::span<const model::Shape> shapes, double percent,
                                         bool keeps_error);

// Makes the reference of DiLoCo, arXiv:2311.08105, algorithm 1, with PyTorch's Nesterov momentum as the outer
// optimizer: delta = old weights - mean of new weights; velocity = momentum * velocity + delta; weights = old
// weights - rate * (delta + momentum * velocity).
std::unique_ptr<Reference> DilocoReference(std::function<Reference::Vector(size_t p)> weights, double rate,
                                           double momentum);

}  // namespace gradsync::ddp
