#pragma once

#include <span>
#include <string_view>

#include "model/autograd.h"

// The code in this file counts floating-point operations of a model: those of its matrix products,
// convolutions and attention. The counts are computed from the shapes of tensors. A multiplication and the
// addition of its result count as two operations. All operations except matrix products, convolutions and
// attention count as zero, because memory bandwidth limits their speed. Attention is causal, so only the
// lower triangle (with the diagonal) of its (seq, seq) matrix of pairs of positions is counted. If backward
// computes values of forward again, the floating-point operations of the second computation are not counted.
namespace gradsync::bench {

struct Flops {
  double forward = 0;
  double backward = 0;  // operations of backward; zero if no input requires a gradient
};

// Returns how many floating-point operations one operation of forward (such as "linear") takes, and how many
// its backward takes. The arguments are those of model::Tracer::Computed: the operation's name, its result
// and its inputs.
Flops FlopsOf(std::string_view name, const model::Tensor& output, std::span<const model::Var> inputs);

// A FlopCounter adds up the floating-point operations of a forward pass and of its backward pass. During the
// forward pass, the FlopCounter must be the tracer of the model's device (model::Device::set_tracer). For
// each operation of forward, the FlopCounter also counts what backward will compute.
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
