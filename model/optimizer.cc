#include "model/optimizer.h"

#include <cmath>

#include "model/kernels/optimizer.h"

namespace gradsync::model {
namespace {

std::vector<Part> WholeOf(std::span<Parameter* const> params) {
  RequireDistinct(params);
  std::vector<Part> parts;
  for (Parameter* p : params) parts.push_back({.param = p, .begin = 0, .end = p->numel()});
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
        Name(place.dtype()), " of shape ", ToString(place.shape()), " on ", place.device()->name());
  };
  check("gradient", part.grad);
  check("value", part.value);
}

}  // namespace

Optimizer::Optimizer(std::string_view name, std::vector<std::string_view> states, std::vector<Part> parts,
                     double learning_rate)
    : name_(name), state_names_(std::move(states)), parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    Check(part, *parts_.front().param);
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
    for (const Tensor& tensor : state) tensor.Zero();
  }
}

std::vector<NamedTensor> Optimizer::State() {
  AllocateState();
  std::vector<NamedTensor> named;
  for (size_t k = 0; k < states_.size(); ++k) {
    for (size_t i = 0; i < parts_.size(); ++i) {
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
  for (std::vector<Tensor>& state : states_) {
    for (const Part& part : parts_) {
      const Shape shape = part.is_whole() ? part.param->shape() : Shape{part.end - part.begin};
      state.push_back(Tensor::Zeros(part.param->device(), shape, part.param->dtype()));
    }
  }
}

template <template <class> class Rule, class... Factors>
void Optimizer::Run(std::span<const Part* const> parts, double grad_scale, Factors... factors) {
  if (parts.empty()) return;
  AllocateState();
  const Parameter& first = *parts.front()->param;
  DispatchFloat(first.dtype(), name_, [&]<class T>() {
    std::vector<kernels::UpdatedTensor<T>> tensors;
    for (const Part* part : parts) {
      Parameter& p = *part->param;
      kernels::UpdatedTensor<T>& tensor = tensors.emplace_back();
      tensor.grad = part->grad.defined() ? part->grad.data<T>() : p.grad().data<T>() + part->begin;
      tensor.n = part->end - part->begin;
      if (part->value.defined()) {
        tensor.value = part->value.data<T>();
      } else if (part->is_whole()) {
        const Parameter::Update update = p.BeginUpdate();
        tensor.value = update.value.data<T>();
        if (update.copy.defined()) tensor.copy = update.copy.data<BF16>();
      } else {
        tensor.value = p.MutableValue().data<T>() + part->begin;  // The copy is updated at its next use.
      }
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
    : Optimizer("SGD", {}, std::move(parts), options.learning_rate), options_(options) {}

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
    : Optimizer("AdamW", {"exp_avg", "exp_avg_sq"}, std::move(parts), options.learning_rate),
      options_(options) {
  Require(options.weight_decay >= 0, "AdamW: weight decay is ", options.weight_decay,
          ", expected at least 0");
  Require(options.eps > 0, "AdamW: eps is ", options.eps, ", expected more than 0");
  for (const double beta : {options.beta1, options.beta2}) {
    Require(beta >= 0 && beta < 1, "AdamW: beta is ", beta, ", expected at least 0 and less than 1");
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

}  // namespace gradsync::model
