#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/autograd.h"
#include "model/tensor/tensor_ops.h"

// A model for tests of strategies for gradient synchronisation, whose gradients are exactly known. The
// model's loss may use each parameter once, several times or not at all. A use adds x + 15 floor(w / 16) to
// each element of the parameter's gradient. If a RowsOfUse returns row numbers, the use adds only to the
// elements in these rows. Here w is the element of the parameter, and x is the number that DataAt returns for
// the element. If the element's index is even, w is the value that forward reads; if odd, the value that
// backward reads. Unless the loss is Scaled, all gradients are small multiples of 15, so f32 sums of
// gradients have no rounding error.
namespace gradsync::ddp {

class TestModel {
 public:
  // A function that returns the rows of a parameter's gradient to which one use adds; nullopt means all rows.
  // The parameter has the index uses[use], where `uses` is an argument of Loss().
  using RowsOfUse = std::function<std::optional<std::vector<int32_t>>(int use)>;

  // Makes one parameter for each entry of `numels`, in forward order. Parameter i has the shape shapes[i] or,
  // if `shapes` is empty, numels[i] rows and one column. If `copy` is kBF16, forward reads bf16 copies of all
  // parameters except those with the indices `without_copy`.
  explicit TestModel(const std::vector<int64_t>& numels, model::DevicePtr device = model::CpuDevice(),
                     model::Parameter::Copy copy = model::Parameter::Copy::kNone,
                     const std::vector<size_t>& without_copy = {},
                     const std::vector<model::Shape>& shapes = {})
      : device_(std::move(device)) {
    for (const int64_t numel : numels) {
      const auto index = static_cast<int>(owned_.size());
      owned_.push_back(std::make_unique<model::Parameter>(
          "p" + std::to_string(index),
          Integers(shapes.empty() ? model::Shape{numel, 1} : shapes[owned_.size()],
                   [&](int64_t i) { return (i * 7 + index) % 11; }),
          std::ranges::count(without_copy, owned_.size()) > 0 ? model::Parameter::Copy::kNone : copy));
      params_.push_back(owned_.back().get());
    }
  }

  const std::vector<model::Parameter*>& params() const { return params_; }
  const model::DevicePtr& device() const { return device_; }

  // Returns x, the part of element i of the gradient of parameter `param` that does not depend on the
  // weights.
  static float DataAt(int rank, int step, int64_t param, int64_t i) {
    return static_cast<float>(15 * ((i * 3 + param * 5 + rank * 17 + step * 29) % 64 - 32));
  }

  // Returns x + 15 floor(weight / 16), the number that a use of all rows of `param` adds to element i of its
  // gradient if the loss is not Scaled. `weight` is element i of the parameter, as the use reads it.
  static float GradientAt(int rank, int step, int64_t param, int64_t i, float weight) {
    return DataAt(rank, step, param, i) + 15 * std::floor(weight / 16);
  }

  std::vector<float> Read(size_t p) const { return Floats(params_[p]->ForwardValue()); }
  std::vector<float> Floats(const model::Tensor& values) const {
    if (values.dtype() == model::DType::kF32) return values.ToVector<float>();
    const model::Tensor floats = model::Tensor::Empty(device_, values.shape(), model::DType::kF32);
    Cast(values, floats);
    return floats.ToVector<float>();
  }

  // Returns the indices of all parameters: 0, 1, ..., params().size() - 1.
  std::vector<size_t> Once() const {
    std::vector<size_t> uses(params_.size());
    std::iota(uses.begin(), uses.end(), size_t{0});
    return uses;
  }

  // Returns a loss that uses every parameter once, in forward order. If `visit` is given, Backward calls
  // visit(i) just before it computes what a use of parameter i adds to its gradient.
  model::Var Loss(int rank, int step, const std::function<void(int)>& visit = {}) const {
    return Loss(rank, step, Once(), visit);
  }
  // Returns a loss that uses the parameters with the indices `uses`, in this order. If rows(i) returns row
  // numbers, the use of parameter uses[i] adds nonzero values only to these rows of its gradient. If rows(i)
  // returns row numbers, parameter uses[i] must have one column.
  model::Var Loss(int rank, int step, const std::vector<size_t>& uses,
                  const std::function<void(int)>& visit = {}, const RowsOfUse& rows = {}) const {
    model::Var loss(Integers({1, 1}, [](int64_t) { return 0; }));
    for (size_t use = 0; use < uses.size(); ++use) {
      const size_t p = uses[use];
      const std::optional<std::vector<int32_t>> touched = rows ? rows(static_cast<int>(use)) : std::nullopt;
      std::vector<bool> is_touched(static_cast<size_t>(params_[p]->numel()), !touched);
      if (touched) {
        for (const int32_t row : *touched) is_touched[static_cast<size_t>(row)] = true;
      }
      const model::Tensor weight = params_[p]->ForwardValue();
      const std::vector<float> in_forward = Floats(weight);
      const model::Tensor ids =
          touched ? model::Tensor::From<int32_t>(device_, {std::ssize(*touched)}, std::span(*touched))
                  : model::Tensor();
      const int index = static_cast<int>(p);
      loss = model::Var::FromOp("inner", loss.value(), {loss, *params_[p]}, [=, this](model::OpGradient& op) {
        const auto write = [&](const model::Destination<model::Tensor>& grad) {
          if (visit) visit(index);
          const std::vector<float> in_backward = Floats(weight);
          const model::Tensor scaled = Integers(weight.shape(), [&](int64_t i) {
            const auto at = static_cast<size_t>(i);
            if (!is_touched[at]) return 0.0f;
            return GradientAt(rank, step, index, i, i % 2 == 0 ? in_forward[at] : in_backward[at]);
          });
          Scale(scaled, op.output_grad().ToVector<float>().at(0));
          Store(scaled, grad);
        };
        op.Contribute(1, write, ids);
        op.PassThrough(0);
      });
    }
    return loss;
  }

  // Returns a loss whose gradients are `factor` times the gradients of `loss`.
  static model::Var Scaled(const model::Var& loss, double factor) {
    return model::Var::FromOp("scale", loss.value(), {loss}, [factor](model::OpGradient& op) {
      op.Contribute(0, [&](const model::Destination<model::Tensor>& grad) {
        grad.data.CopyFrom(op.output_grad());
        Scale(grad.data, factor);
      });
    });
  }

 private:
  template <class Fn>
  model::Tensor Integers(const model::Shape& shape, Fn fn) const {
    std::vector<float> values(static_cast<size_t>(model::Numel(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(fn(static_cast<int64_t>(i)));
    return model::Tensor::From<float>(device_, shape, std::span<const float>(values));
  }

  const model::DevicePtr device_;
  std::vector<std::unique_ptr<model::Parameter>> owned_;
  std::vector<model::Parameter*> params_;
};

}  // namespace gradsync::ddp
