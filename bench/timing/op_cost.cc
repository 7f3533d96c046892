#include "bench/timing/op_cost.h"

#include <algorithm>

namespace gradsync::bench {
namespace {

using model::Tensor;
using model::Var;

double Dim(const Tensor& tensor, int i) { return static_cast<double>(tensor.dim(i)); }

// Returns the floating-point operations of one product: the product of forward, or one of the products of
// backward. Backward has one product for each factor with a gradient.
double ProductFlops(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  const double numel = static_cast<double>(output.numel());
  // Counts q k^T for the pairs of positions that attention uses.
  if (name == "attention") return numel * (Dim(output, 1) + 1);
  if (name == "linear" || name == "add_linear") return 2 * numel * Dim(inputs[1].value(), 1);
  if (name != "conv2d") return 0;
  const Tensor& weight = inputs[1].value();
  return 2 * numel * Dim(weight, 1) * Dim(weight, 2) * Dim(weight, 3);
}

}  // namespace

Flops FlopsOf(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  const double product = ProductFlops(name, output, inputs);
  if (name == "attention") {  // two products, and two more for the gradients of each product
    const bool has_gradient = std::ranges::any_of(inputs, &Var::requires_grad);
    return {.forward = 2 * product, .backward = has_gradient ? 4 * product : 0};
  }
  const auto gradients =
      std::ranges::count_if(inputs.first(std::min(inputs.size(), size_t{2})), &Var::requires_grad);
  return {.forward = product, .backward = static_cast<double>(gradients) * product};
}

}  // namespace gradsync::bench
