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

// Defines a model with exactly known gradients, for tests of strategies for gradient synchronisation. The
// model's loss may use a parameter once, several times or not at all. For each use, Backward adds x + 15
// floor(w / 16) to each element of the parameter's gradient. Here w is the value of the same element of the
// parameter, and x is a number that DataAt computes from the rank, the step, the parameter and the element's
// index. If the function Scaled has multiplied the loss by a factor, Backward adds factor * (x + 15 floor(w /
// 16)). For elements with an even index, w is the parameter's value that forward reads; for elements with an
// odd index, w is the value that backward reads. So if forward has read wrong weights, gradient elements with
// even indices are wrong; if backward has read wrong weights, those with odd indices are wrong. Unless Scaled
// has multiplied the loss, all gradient elements are multiples of 15, and their magnitudes are far below
// 2^24. So f32 sums of gradients, and their means over 1, 2, 3, 4, 5, 6 or 8 ranks, have no rounding error.
// Under gradient descent with a learning rate of 0.5, the weights w stay small, and so do the gradients.
namespace gradsync::ddp {

class TestModel {
 public:
  // The type of a function that tells Loss() which rows of a parameter the loss reads. Loss() calls the
  // function with each index `use` into the list `uses`, an argument of Loss(). The function returns the row
  // numbers of the parameter uses[use] that are read, or nullopt if all rows are read.
  using RowsOfUse = std::function<std::optional<std::vector<int32_t>>(int use)>;

  // Makes one parameter for each entry of `numels`, in forward order: a matrix with this number of rows and
  // one column. If `shapes` is not empty, parameter i has the shape shapes[i] instead, which must have
  // numels[i] elements. If `copy` is kBF16, all parameters except those with the indices `without_copy` also
  // have a copy in bf16, which forward reads instead of the f32 value.
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

  // One use of the parameter with the index `param` adds x + 15 floor(w / 16) to element i of its gradient,
  // where w is element i of the parameter. DataAt returns x, which does not depend on w.
  static float DataAt(int rank, int step, int64_t param, int64_t i) {
    return static_cast<float>(15 * ((i * 3 + param * 5 + rank * 17 + step * 29) % 64 - 32));
  }

  // Returns the number that Backward adds to element i of the gradient of parameter `param` for one use of
  // this parameter. `weight` is the value of the parameter's element i that this use reads. If the function
  // Scaled has multiplied the loss, Backward multiplies the number by Scaled's factor.
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

  // Returns the indices of all parameters of this TestModel: 0, 1, ..., params().size() - 1.
  std::vector<size_t> Once() const {
    std::vector<size_t> uses(params_.size());
    std::iota(uses.begin(), uses.end(), size_t{0});
    return uses;
  }

  // Returns the loss of a graph that uses every parameter once, in forward order. If `visit` is given,
  // Backward calls visit(i) just before it computes the gradient of parameter i.
  model::Var Loss(int rank, int step, const std::function<void(int)>& visit = {}) const {
    return Loss(rank, step, Once(), visit);
  }
  // Reads the parameters with the indices `uses`, in this order, and returns a loss for Backward. If rows(i)
  // returns row numbers, the parameter uses[i] must have one column. For use i, Backward then adds zero to
  // all rows of the parameter's gradient except rows(i), and passes rows(i) to OpGradient::Contribute.
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
