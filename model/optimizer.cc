#include "model/optimizer.h"

#include <algorithm>
#include <cmath>

#include "model/kernels/gemm.h"
#include "model/kernels/optimizer.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

std::vector<Part> WholeOf(std::span<Parameter* const> params) {
  std::vector<Part> parts;
  for (Parameter* p : Trained(params)) parts.push_back({.param = p, .begin = 0, .end = p->numel()});
  return parts;
}

void Check(const Part& part, const Parameter& first) {
  const Parameter& p = *part.param;
  Require(p.device() == first.device() && p.dtype() == first.dtype(), "optimizer: parameter '", p.name(),
          "' is ", Name(p.dtype()), " on ", p.device()->name(), ", '", first.name(), "' is ",
          Name(first.dtype()), " on ", first.device()->name(), ", expected one dtype and device");
  Require(p.dtype() == DType::kF32 || p.dtype() == DType::kF64, "optimizer: parameter '", p.name(), "' is ",
          Name(p.dtype()), ", expected f32 or f64");
  Require(0 <= part.begin && part.begin <= part.end && part.end <= p.numel(), "optimizer: parameter '",
          p.name(), "' has no elements from ", part.begin, " to ", part.end, ", expected at most ",
          p.numel());
  const auto check = [&](const char* what, const Tensor& place) {
    if (!place.defined()) return;
    Require(
        place.numel() == part.end - part.begin && place.dtype() == p.dtype() && place.device() == p.device(),
        "optimizer: the ", what, " of elements ", part.begin, " to ", part.end, " of '", p.name(), "' is ",
        Name(place.dtype()), " of shape ", place.shape(), " on ", place.device()->name());
  };
  check("gradient", part.grad);
  check("value", part.value);
}

// What a kernel updates, without states.
template <class T>
kernels::UpdatedTensor<T> Updated(const Part& part) {
  Parameter& p = *part.param;
  kernels::UpdatedTensor<T> tensor{};
  tensor.grad = part.grad.defined() ? part.grad.data<T>() : p.grad().data<T>() + part.begin;
  tensor.n = part.end - part.begin;
  if (part.value.defined()) {
    tensor.value = part.value.data<T>();
  } else if (part.is_whole()) {
    const Parameter::Update update = p.BeginUpdate();
    tensor.value = update.value.data<T>();
    if (update.copy.defined()) tensor.copy = update.copy.data<BF16>();
  } else {
    tensor.value = p.MutableValue().data<T>() + part.begin;  // The copy is made when it is needed.
  }
  return tensor;
}

// value = keep * value + add * x, for matrices of one shape.
template <class T>
void BlendIn(const Tensor& x, double keep, double add, const kernels::UpdatedTensor<T>& value) {
  kernels::UpdatedTensor<T> tensor = value;
  tensor.grad = x.data<T>();
  kernels::Run("Muon", *x.device(),
               kernels::Update<kernels::Blend, T>{.tensors = {&tensor, 1},
                                                  .rule = {static_cast<T>(keep), static_cast<T>(add)}});
}

}  // namespace

Optimizer::Optimizer(std::string_view name, Unit unit, std::vector<std::string_view> states,
                     std::vector<Part> parts, double learning_rate)
    : name_(name), state_names_(std::move(states)), parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    Check(part, *parts_.front().param);
    Require(unit == Unit::kElement || part.is_whole() || !IsMatrix(*part.param), name_, ": found elements ",
            part.begin, " to ", part.end, " of the matrix '", part.param->name(),
            "', expected the whole matrix");
    parts_of_[part.param].push_back(&part);
  }
  SetLearningRate(learning_rate);
}

void Optimizer::SetLearningRate(double learning_rate) {
  Require(learning_rate >= 0, name_, ": learning rate is ", learning_rate, ", expected at least 0");
  learning_rate_ = learning_rate;
}

void Optimizer::Step(double grad_scale) {
  std::vector<const Part*> parts;
  for (const Part& part : parts_) parts.push_back(&part);
  CheckGradients(parts);
  Advance();
  Update(parts, grad_scale);
}

void Optimizer::Apply(std::span<Parameter* const> params, double grad_scale) {
  std::vector<const Part*> parts;
  for (const Parameter* p : params) {
    const auto found = parts_of_.find(p);
    if (found != parts_of_.end()) parts.insert(parts.end(), found->second.begin(), found->second.end());
  }
  CheckGradients(parts);
  Update(parts, grad_scale);
}

void Optimizer::CheckGradients(std::span<const Part* const> parts) const {
  for (const Part* part : parts) {
    Require(part->grad.defined() || part->param->has_grad(), "optimizer: parameter '", part->param->name(),
            "' has no gradient; Backward comes before Step");
  }
}

void Optimizer::Reset() {
  num_steps_ = 0;
  for (const std::vector<Tensor>& state : states_) {
    for (const Tensor& tensor : state)
      if (tensor.defined()) tensor.Zero();
  }
}

std::vector<NamedTensor> Optimizer::State() {
  AllocateState();
  std::vector<NamedTensor> named;
  for (size_t k = 0; k < states_.size(); ++k) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!states_[k][i].defined()) continue;
      const Part& part = parts_[i];
      const std::string range = part.is_whole() ? "" : Join("[", part.begin, ":", part.end, "]");
      named.emplace_back(Join(state_names_[k], ".", part.param->name(), range), states_[k][i]);
    }
  }
  return named;
}

void Optimizer::AllocateState() {
  if (states_.size() == state_names_.size()) return;
  states_.resize(state_names_.size());
  for (size_t k = 0; k < states_.size(); ++k) {
    for (const Part& part : parts_) {
      const Shape shape = part.is_whole() ? part.param->shape() : Shape{part.end - part.begin};
      const bool has_it = k < NumStatesOf(*part.param);
      states_[k].push_back(has_it ? Tensor::Zeros(part.param->device(), shape, part.param->dtype())
                                  : Tensor());
    }
  }
}

const Tensor& Optimizer::FirstStateOf(const Part& part) {
  AllocateState();
  return states_.front()[static_cast<size_t>(&part - parts_.data())];
}

template <template <class> class Rule, class... Factors>
void Optimizer::Run(std::span<const Part* const> parts, double grad_scale, Factors... factors) {
  if (parts.empty()) return;
  AllocateState();
  const Parameter& first = *parts.front()->param;
  DispatchFloat(first.dtype(), name_, [&]<class T>() {
    std::vector<kernels::UpdatedTensor<T>> tensors;
    for (const Part* part : parts) {
      kernels::UpdatedTensor<T>& tensor = tensors.emplace_back(Updated<T>(*part));
      const auto i = static_cast<size_t>(part - parts_.data());
      for (size_t k = 0; k < states_.size(); ++k) tensor.states[k] = states_[k][i].data<T>();
    }
    kernels::Run(name_, *first.device(),
                 kernels::Update<Rule, T>{.tensors = tensors,
                                          .rule = {static_cast<T>(factors)...},
                                          .grad_scale = static_cast<T>(grad_scale)});
  });
}

Sgd::Sgd(std::span<Parameter* const> params, const Options& options) : Sgd(WholeOf(params), options) {}

Sgd::Sgd(std::vector<Part> parts, const Options& options)
    : Optimizer("SGD", Unit::kElement, {}, std::move(parts), options.learning_rate), options_(options) {}

std::unique_ptr<Optimizer> Sgd::ForParts(std::vector<Part> parts) const {
  auto optimizer = std::make_unique<Sgd>(std::move(parts), options_);
  optimizer->SetLearningRate(learning_rate());
  return optimizer;
}

void Sgd::Update(std::span<const Part* const> parts, double grad_scale) {
  Run<kernels::Sgd>(parts, grad_scale, learning_rate());
}

AdamW::AdamW(std::span<Parameter* const> params, const Options& options) : AdamW(WholeOf(params), options) {}

AdamW::AdamW(std::vector<Part> parts, const Options& options)
    : AdamW("AdamW", Unit::kElement, std::move(parts), options) {}

AdamW::AdamW(std::string_view name, Unit unit, std::vector<Part> parts, const Options& options)
    : Optimizer(name, unit, {"exp_avg", "exp_avg_sq"}, std::move(parts), options.learning_rate),
      options_(options) {
  Require(options.weight_decay >= 0, name, ": weight decay is ", options.weight_decay,
          ", expected at least 0");
  Require(options.eps > 0, name, ": eps is ", options.eps, ", expected more than 0");
  for (const double beta : {options.beta1, options.beta2}) {
    Require(beta >= 0 && beta < 1, name, ": beta is ", beta, ", expected at least 0 and less than 1");
  }
}

std::unique_ptr<Optimizer> AdamW::ForParts(std::vector<Part> parts) const {
  auto optimizer = std::make_unique<AdamW>(std::move(parts), options_);
  optimizer->SetLearningRate(learning_rate());
  return optimizer;
}

void AdamW::Update(std::span<const Part* const> parts, double grad_scale) {
  const Options& o = options_;
  const double rate = learning_rate(), count = static_cast<double>(num_steps());
  const auto update = [&](std::span<const Part* const> group, double weight_decay) {
    Run<kernels::AdamW>(group, grad_scale, 1 - rate * weight_decay, o.beta1, 1 - o.beta1, o.beta2,
                        1 - o.beta2, rate / (1 - std::pow(o.beta1, count)),
                        1 / std::sqrt(1 - std::pow(o.beta2, count)), o.eps);
  };
  if (o.decay_vectors) return update(parts, o.weight_decay);
  std::vector<const Part*> matrices, vectors;
  for (const Part* part : parts) (part->param->shape().size() >= 2 ? matrices : vectors).push_back(part);
  update(matrices, o.weight_decay);
  update(vectors, 0);
}

Muon::Muon(std::span<Parameter* const> params, const Options& options) : Muon(WholeOf(params), options) {}

Muon::Muon(std::vector<Part> parts, const Options& options)
    : AdamW("Muon", Unit::kMatrix, std::move(parts), options.adamw), options_(options) {
  Require(options.momentum >= 0 && options.momentum < 1, "Muon: momentum is ", options.momentum,
          ", expected at least 0 and less than 1");
}

std::unique_ptr<Optimizer> Muon::ForParts(std::vector<Part> parts) const {
  auto optimizer = std::make_unique<Muon>(std::move(parts), options_);
  optimizer->SetLearningRate(learning_rate());
  return optimizer;
}

void Muon::Update(std::span<const Part* const> parts, double grad_scale) {
  std::vector<const Part*> rest;
  for (const Part* part : parts) {
    if (!IsMatrix(*part->param)) {
      rest.push_back(part);
    } else if (part->param->dtype() == DType::kF64) {
      UpdateMatrix<double>(*part, grad_scale);
    } else if (options_.in_bf16) {
      UpdateMatrix<BF16>(*part, grad_scale);
    } else {
      UpdateMatrix<float>(*part, grad_scale);
    }
  }
  AdamW::Update(rest, grad_scale);
}

template <class T>
void Muon::UpdateMatrix(const Part& part, double grad_scale) {
  using W = Wide<T>;
  const Parameter& p = *part.param;
  const Tensor u = Workspace(0, p.value(), p.shape(), kDTypeOf<W>);
  Part momentum = part;
  momentum.value = u;
  kernels::UpdatedTensor<W> tensor = Updated<W>(momentum);
  tensor.states[0] = FirstStateOf(part).template data<W>();
  const double beta = options_.momentum;
  kernels::Run("Muon", *u.device(),
               kernels::Update<kernels::Nesterov, W>{.tensors = {&tensor, 1},
                                                     .rule = {static_cast<W>(beta), static_cast<W>(1 - beta)},
                                                     .grad_scale = static_cast<W>(grad_scale)});
  const Scaled direction = Orthogonalize<T>(u);
  const auto longest = static_cast<double>(std::ranges::max(p.shape()));
  BlendIn(direction.tensor, 1 - learning_rate() * options_.adamw.weight_decay,
          -learning_rate() * 0.2 * std::sqrt(longest) * direction.factor, Updated<W>(part));
}

// x is kept divided by `scale`, the power of the first coefficient: then each iteration ends in a product
// that adds x itself.
template <class T>
Muon::Scaled Muon::Orthogonalize(const Tensor& u) {
  using W = Wide<T>;
  constexpr double kFirst = 3.4445, kSecond = -4.7750, kThird = 2.0315, kEps = 1e-7;
  constexpr int kIterations = 5;
  const int64_t rows = u.shape()[0], columns = u.shape()[1], side = std::min(rows, columns);
  const bool is_tall = rows > columns;
  Device& device = *u.device();
  // A factor of a product: itself, or rounded to bf16.
  const auto factor = [&](size_t i, const Tensor& wide) {
    if constexpr (std::is_same_v<T, W>) return wide;
    const Tensor rounded = Workspace(i, u, wide.shape(), kDTypeOf<T>);
    Cast(wide, rounded);
    return rounded;
  };
  const auto square = [&](const kernels::Operand<T>& a, const kernels::Operand<T>& b, int64_t k,
                          const Tensor& c) {
    kernels::Run(
        "Muon", device,
        kernels::Gemm<T, W>{
            .m = side, .n = side, .k = k, .a = a, .b = b, .c = {.data = c.data<W>()}, .c_stride = side});
  };
  Scale(u, 1 / (std::sqrt(SquaredNorm(u)) + kEps));
  Tensor x = factor(1, u), next = Workspace(2, u, u.shape(), kDTypeOf<T>);
  const Tensor a = Workspace(3, u, {side, side}, kDTypeOf<W>), b = Workspace(4, u, {side, side}, kDTypeOf<W>);
  double scale = 1;
  for (int i = 0; i < kIterations; ++i) {
    const kernels::Operand<T> plain{x.data<T>(), columns}, transposed{x.data<T>(), columns, true};
    if (is_tall) {
      square(transposed, plain, rows, a);
    } else {
      square(plain, transposed, columns, a);
    }
    const Tensor a_factor = factor(5, a);
    const kernels::Operand<T> a_operand{a_factor.data<T>(), side};
    square(a_operand, a_operand, side, b);
    const double squared = scale * scale;
    kernels::UpdatedTensor<W> sum{};
    sum.value = b.data<W>();
    sum.n = b.numel();
    BlendIn(a, kThird * squared * squared / kFirst, kSecond * squared / kFirst, sum);
    const kernels::Operand<T> b_operand{factor(5, b).template data<T>(), side};
    kernels::Run("Muon", device,
                 kernels::Gemm<T, T>{.m = rows,
                                     .n = columns,
                                     .k = side,
                                     .a = is_tall ? plain : b_operand,
                                     .b = is_tall ? b_operand : plain,
                                     .c = {.data = next.data<T>()},
                                     .c_stride = columns,
                                     .addend = x.data<T>()});
    std::swap(x, next);
    scale *= kFirst;
  }
  if constexpr (std::is_same_v<T, W>) return {x, scale};
  Cast(x, u);
  return {u, scale};
}

Tensor Muon::Workspace(size_t i, const Tensor& like, Shape shape, DType dtype) {
  workspace_.resize(std::max(workspace_.size(), i + 1));
  const int64_t bytes = Numel(shape) * static_cast<int64_t>(SizeOf(dtype));
  if (!workspace_[i].defined() || workspace_[i].numel() < bytes)
    workspace_[i] = Tensor::Empty(like.device(), {bytes}, DType::kU8);
  return workspace_[i].SliceBytes(0, std::move(shape), dtype);
}

}  // namespace gradsync::model
