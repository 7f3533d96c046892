#ifndef GRADSYNC_BENCH_TIMING_OP_COST_H_
#define GRADSYNC_BENCH_TIMING_OP_COST_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "model/autograd.h"

// What an operation takes at least, counted from the shapes that it was given.
//
// Arithmetic is that of matrix products, convolutions and attention, a multiplication with its addition being
// two; what is done element by element is not counted, as memory limits it long before. Attention sees half
// of the (seq, seq) matrix, and its backward pass computes the probabilities again, as nobody keeps them.
//
// Bytes are each input's that is read and each result's that is written, once. Backward reads the gradient
// that arrives and what the operation has kept (model/functions.h, model/vision_functions.h), and writes the
// gradients of the inputs that have any. A gradient that is passed on as it is costs nothing, nor do a few
// numbers per row. What a cache holds from one operation to the next is not taken into account.
namespace gradsync::bench {

struct OpCost {
  double flops = 0;
  double bytes = 0;

  OpCost& operator+=(const OpCost& other);
};

struct OpCosts {
  OpCost forward;
  OpCost backward;  // zero if no input has a gradient
};

// `name`, `output` and `inputs` as model::Tracer::Computed has them. An operation that is not known here
// costs the bytes of its inputs and outputs.
OpCosts CostsOf(std::string_view name, const model::Tensor& output, std::span<const model::Var> inputs);

// What forward and backward of a model have to compute: of the operations that it hears of, the arithmetic
// above, without what attention's backward pass computes again.
class FlopCounter : public model::Tracer {
 public:
  void Begin(std::string_view /*name*/) override {}
  void End() override {}
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override;
  double flops() const { return flops_; }

 private:
  double flops_ = 0;
};

// One step of "adamw" or "sgd" (without momentum): values, gradients and state are read once, values, state
// and the values' copies in bf16 are written once.
OpCost OptimizerCost(std::string_view optimizer, std::span<model::Parameter* const> params);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TIMING_OP_COST_H_
