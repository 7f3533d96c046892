#pragma once

#include <span>
#include <string_view>

#include "model/autograd.h"

// Counts the floating-point operations of matrix products, convolutions and attention from their shapes. A
// multiplication and its addition count as two operations. Elementwise operations count as zero, because
// memory limits their speed. Attention counts half of the (seq, seq) matrix, and does not count what its
// backward pass computes a second time.
namespace gradsync::bench {

struct Flops {
  double forward = 0;
  double backward = 0;  // operations of backward; zero if no input has a gradient
};

// Returns the floating-point operations of one operation. `name`, `output` and `inputs` are the arguments of
// model::Tracer::Computed.
Flops FlopsOf(std::string_view name, const model::Tensor& output, std::span<const model::Var> inputs);

// Adds the floating-point operations of forward and backward of all operations that are reported to this
// tracer.
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
