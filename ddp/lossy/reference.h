#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ddp/interface/context.h"
#include "model/tensor/tensor.h"

// Strategies with Agreement::kLossy or kDrifts, except `none`, have a Reference, which computes the gradients
// or weights that the strategy must have. These strategies need a Reference because their results are not
// those of a single process. A Reference computes the strategy's equations for all ranks in one process,
// mostly in f64. But TopKReference rounds its sums of unsent gradients to f32, and MeanReference can round
// gradients and their mean to bf16. Tests compare the results of strategies with those of their references.
// The benchmarks of training steps also compare results with references, after timing, unless their flag
// --verify is false. References call no code of the strategies, so that an error in a strategy is not also in
// its Reference.
namespace gradsync::ddp {

class Reference {
 public:
  using Vector = std::vector<double>;

  virtual ~Reference() = default;

  // Computes the gradient or the weights that all ranks must have next for the p-th parameter. If the
  // strategy changes gradients, of_ranks[r] is the p-th parameter's gradient that rank r has computed, and
  // the result is the gradient that all ranks have after Strategy::Finish. If the strategy is `local_sgd` or
  // `diloco`, of_ranks[r] is the p-th parameter's value on rank r at the end of a period. In these two
  // strategies, the result is the value with which all ranks begin the next period (the steps from one
  // synchronisation to the next). Call Next once for each parameter in each step (or period), because some
  // references keep unsent parts of the gradients, or a momentum, from call to call.
  virtual Vector Next(size_t p, std::span<const Vector> of_ranks) = 0;
};

struct ReferenceContext {
  std::span<const model::Shape> shapes;  // the shapes of the parameters, in forward order
  // Returns the weights of the p-th parameter before the first step.
  std::function<Reference::Vector(size_t p)> weights;
  const StrategyOptions& options;
};

// Makes the Reference of a strategy whose Traits::reference is not null. Like the strategy, the Reference
// computes the exact mean of the ranks' gradients in the first StartOf(traits, context.options) steps.
std::unique_ptr<Reference> MakeReference(const Traits& traits, const ReferenceContext& context);

// Makes a Reference that computes means over ranks. If `rounds` is true, as for the strategy bf16_wire, the
// Reference rounds each rank's gradient to bf16, averages the rounded gradients in f64, and rounds the mean
// to bf16. If `rounds` is false, the Reference computes the mean of the ranks' gradients (in local SGD, of
// their weights) in f64.
std::unique_ptr<Reference> MeanReference(bool rounds);

// Makes a Reference that computes PowerSGD, arXiv:1905.13727, algorithms 1 and 2. A gradient is viewed as a
// matrix (first dimension x all others), with two factors, P and Q, of `rank` columns each. Ranks average P
// and Q if `min_compression` times their number of elements is below the gradient's number of elements.
// Otherwise ranks average the gradient itself. Before the first step, the factor Q of each parameter has the
// same random numbers as in the strategy `powersgd`.
std::unique_ptr<Reference> PowerSgdReference(std::span<const model::Shape> shapes, double rank,
                                             double min_compression);

// Makes the Reference of the strategy topk. The Reference computes gradient dropping, arXiv:1704.05021,
// algorithm 1. Each rank has a memory of unsent gradients, and in each step adds its gradient to this memory.
// Each rank then sends, from each tensor of this memory, the `percent` per cent of the elements that have the
// largest magnitude (rounded up to whole elements; of equal magnitudes the first). A rank keeps the other
// elements in its memory if `keeps_error` is true. The result is the mean over ranks of the sent elements; an
// element that a rank does not send counts as 0. Of gradients with fewer than two dimensions, each rank sends
// all elements. The Reference rounds its sums of unsent gradients to f32, as the strategy topk does: without
// this rounding, the Reference could take other elements than the strategy for the largest.
std::unique_ptr<Reference> TopKReference(std::span<const model::Shape> shapes, double percent,
                                         bool keeps_error);

// Makes a Reference that computes DiLoCo, arXiv:2311.08105, algorithm 1, with PyTorch's Nesterov momentum as
// the outer optimizer: delta = old weights - mean of new weights; velocity = momentum * velocity + delta;
// weights = old weights - rate * (delta + momentum * velocity).
std::unique_ptr<Reference> DilocoReference(std::function<Reference::Vector(size_t p)> weights, double rate,
                                           double momentum);

}  // namespace gradsync::ddp
