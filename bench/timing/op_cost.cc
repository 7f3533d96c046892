#include "bench/timing/op_cost.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using model::Tensor;
using model::Var;

double BytesOf(const Tensor& tensor) { return tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0; }

double Elements(const Tensor& tensor) { return static_cast<double>(tensor.numel()); }

double Dim(const Tensor& tensor, int i) { return static_cast<double>(tensor.dim(i)); }

// Which inputs an operation keeps for its backward pass: `count` from `first` on.
struct Kept {
  std::string_view op;
  size_t first, count;
};
constexpr Kept kKept[] = {{"linear", 0, 2}, {"add_linear", 0, 2}, {"rms_norm", 0, 2},
                          {"swiglu", 0, 2}, {"attention", 0, 3},  {"cross_entropy", 0, 1},
                          {"conv2d", 0, 2}, {"batch_norm", 2, 1}, {"squared_error", 0, 1}};
constexpr size_t kBatchNormResidual = 3;

double KeptBytes(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  double bytes = 0;
  const auto kept = std::ranges::find(kKept, name, &Kept::op);
  if (kept != std::end(kKept)) {
    for (const Var& input : inputs.subspan(kept->first, kept->count)) bytes += BytesOf(input.value());
  }
  const bool keeps_output =
      name == "attention" || (name == "batch_norm" && inputs[kBatchNormResidual].value().defined());
  if (keeps_output) bytes += BytesOf(output);
  if (name == "max_pool2d") bytes += Elements(output);  // where each maximum was, in a byte
  return bytes;
}

// Of input i. A parameter's gradient is that of its value, of which the operation may have read a copy in
// bf16. Of an embedding's only the rows that are named, though it may have to fill the others with zeros.
double GradientBytes(std::string_view name, const Tensor& output, std::span<const Var> inputs, size_t i) {
  const bool passes_through = name == "add" || (name == "add_linear" && i == 2);
  if (passes_through || !inputs[i].requires_grad()) return 0;
  const Tensor& value = inputs[i].value();
  return Elements(name == "embedding" ? output : value) *
         static_cast<double>(SizeOf(inputs[i].is_parameter() ? WideDType(value.dtype()) : value.dtype()));
}

// Of forward; the products of backward, one for each input with a gradient, have as many.
double ProductFlops(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  if (name == "linear" || name == "add_linear") return 2 * Elements(output) * Dim(inputs[1].value(), 1);
  if (name != "conv2d") return 0;
  const Tensor& weight = inputs[1].value();
  return 2 * Elements(output) * Dim(weight, 1) * Dim(weight, 2) * Dim(weight, 3);
}

// q k^T and its product with v, for the pairs of positions of which one sees the other.
double AttentionFlops(const Tensor& q) { return 2 * Elements(q) * (Dim(q, 1) + 1); }

}  // namespace

OpCost& OpCost::operator+=(const OpCost& other) {
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

OpCosts CostsOf(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  OpCosts costs;
  bool has_gradient = false;
  const double product_flops = ProductFlops(name, output, inputs);
  costs.forward.bytes = BytesOf(output);
  costs.backward.bytes = name == "add" ? 0 : BytesOf(output);
  for (size_t i = 0; i < inputs.size(); ++i) {
    costs.forward.bytes += name == "embedding" ? BytesOf(output) : BytesOf(inputs[i].value());
    costs.backward.bytes += GradientBytes(name, output, inputs, i);
    has_gradient |= inputs[i].requires_grad();
    if (i < 2 && inputs[i].requires_grad()) costs.backward.flops += product_flops;
  }
  costs.backward.bytes += KeptBytes(name, output, inputs);
  costs.forward.flops = product_flops;
  if (name == "attention") {
    costs.forward.flops = AttentionFlops(output);
    costs.backward.flops = 2.5 * costs.forward.flops;  // five products instead of two
  }
  if (!has_gradient) costs.backward = {};
  return costs;
}

void FlopCounter::Computed(std::string_view name, const Tensor& output, std::span<const Var> inputs) {
  const OpCosts costs = CostsOf(name, output, inputs);
  const bool computes_again = name == "attention" && costs.backward.flops > 0;
  flops_ += costs.forward.flops + (computes_again ? 2 * costs.forward.flops : costs.backward.flops);
}

OpCost OptimizerCost(std::string_view optimizer, std::span<model::Parameter* const> params) {
  Require(optimizer == "adamw" || optimizer == "sgd", "optimizer cost: found '", optimizer,
          "', expected adamw or sgd");
  // Of AdamW value and two moments read and written, the gradient read.
  const double passes = optimizer == "adamw" ? 7 : 3;
  OpCost cost;
  for (const model::Parameter* const param : params) {
    const bool has_copy = param->ForwardValue().dtype() != param->dtype();
    cost.bytes += static_cast<double>(param->numel()) *
                  (passes * static_cast<double>(SizeOf(param->dtype())) +
                   (has_copy ? static_cast<double>(SizeOf(param->ForwardValue().dtype())) : 0));
  }
  return cost;
}

}  // namespace gradsync::bench
