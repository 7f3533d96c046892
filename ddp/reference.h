#ifndef GRADSYNC_DDP_REFERENCE_H_
#define GRADSYNC_DDP_REFERENCE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ddp/factory.h"
#include "model/tensor.h"

// What strategies that are not exact must compute: the equations of their papers, for all ranks in one
// process and in f64. They share no code with the strategies, which tests and the check of
// every run compare with them. The only thing in common is how random numbers start (model/random.h).
namespace gradsync::ddp {

class Reference {
 public:
  using Vector = std::vector<double>;

  virtual ~Reference() = default;

  // One step of a strategy that changes gradients: from each rank's own gradient of parameter p, the one that
  // every rank has afterwards. One period of a strategy that averages weights: from each rank's weights after
  // its own steps, those that every rank goes on with. Called once for each step or period and parameter,
  // because some remember.
  virtual Vector Next(size_t p, std::span<const Vector> of_ranks) = 0;
};

struct ReferenceContext {
  std::span<const model::Shape> shapes;  // of the parameters, in forward order
  // The weights of parameter p before the first step.
  std::function<Reference::Vector(size_t p)> weights;
  const StrategyOptions& options;
};

// The reference of a strategy that has one: in its first steps, see StartOf, the plain mean.
std::unique_ptr<Reference> MakeReference(const Traits& traits, const ReferenceContext& context);

// Gradients are rounded to bf16, averaged, and the mean is rounded to bf16. Without `rounds`: the plain mean,
// of gradients, or of weights as in local SGD.
std::unique_ptr<Reference> MeanReference(bool rounds);

// PowerSGD, arXiv:1905.13727, algorithms 1 and 2. A gradient is a matrix of its first dimension and all
// others; where the factors of that rank would not be `min_compression` times smaller, it is averaged as it
// is. Q starts as FillTruncatedNormal(1, seed 0, stream p of kLowRank) of shape (rank, columns).
std::unique_ptr<Reference> PowerSgdReference(std::span<const model::Shape> shapes, double rank,
                                             double min_compression);

// Gradient dropping, arXiv:1704.05021, algorithm 1: each rank adds its gradient to its memory, sends the
// `percent` per cent of each tensor that are largest there (at least one element; of equals the first), and
// keeps the others. Vectors are averaged as they are. The memory is in f32, because in f64 other elements
// would be the largest.
std::unique_ptr<Reference> TopKReference(std::span<const model::Shape> shapes, double percent,
                                         bool keeps_error);

// DiLoCo, arXiv:2311.08105, algorithm 1, with PyTorch's Nesterov momentum as the outer optimizer: delta = old
// weights - mean of the new ones; velocity = momentum * velocity + delta;
// weights = old weights - rate * (delta + momentum * velocity).
std::unique_ptr<Reference> DilocoReference(std::function<Reference::Vector(size_t p)> weights, double rate,
                                           double momentum);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_REFERENCE_H_
