#pragma once

#include <span>
#include <string_view>

#include "model/autograd.h"

// The arithmetic of an operation, counted from the shapes that it was given: that of matrix products,
// convolutions and attention, where a multiplication with its addition counts as two. Operations that work
// element by element count as zero, because memory limits them long before. Attention sees half of the
// (seq, seq) matrix, and what its backward pass computes a second time does not count.
namespace gradsync::bench {

struct Flops {
  double forward = 0;
  double backward = 0;  // zero if no input has a gradient
};

// `name`, `output` and `inputs` as model::Tracer::Computed has them.
Flops FlopsOf(std::string_view name, const model::Tensor& output, std::span<const model::Var> inputs);

// What forward and backward of a model have to compute: the sum over the operations that it hears of.
class FlopCounter : public model::Tracer {
 public:
  void Begin(std::string_view /*name*/) override {}
  void End() override {}
  void Computed(std::string_view name, const model::Tensor& output,
                std::span<const model::Var> inputs) override {
    const Flops flops = FlopsOf(name, output, inputs);
    flops_ += flops.forward + flops.backward;
  }
  double flops() const { return flops_; }

 private:
  double flops_ = 0;
};

}  // namespace gradsync::bench
