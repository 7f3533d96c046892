#include "model/optimizer.h"

#include <cmath>

#include "model/kernels/optimizer.h"

namespace gradsync::model {
Optimizer::Optimizer(std::string_view name, std::span<Parameter* const> params)
    : name_(name), params_(Trained(params)) {
  for (const Parameter* p : params_) {
    const Parameter& first = *params_.front();
    Require(p->device() == first.device() && p->dtype() == first.dtype(), "optimizer: parameter '", p->name(),
            "' is ", Name(p->dtype()), " on ", p->device()->name(), ", '", first.name(), "' is ",
            Name(first.dtype()), " on ", first.device()->name(), ", expected one dtype and device");
    Require(p->dtype() == DType::kF32 || p->dtype() == DType::kF64, "optimizer: parameter '", p->name(),
            "' is ", Name(p->dtype()), ", expected f32 or f64");
  }
}

void Optimizer::Step() {
  for (const Parameter* p : params_) {
    Require(p->has_grad(), "optimizer: parameter '", p->name(),
            "' has no gradient; Backward comes before Step");
  }
  Update(++step_);
}

void Optimizer::Reset() {
  step_ = 0;
  for (const std::vector<Tensor>& state : states_) {
    for (const Tensor& tensor : state) tensor.Zero();
  }
}

void Optimizer::AllocateStates(int count) {
  states_.resize(static_cast<size_t>(count));
  for (std::vector<Tensor>& state : states_) {
    for (const Parameter* p : params_) {
      state.push_back(Tensor::Zeros(p->device(), p->shape(), p->dtype()));
    }
  }
}

template <template <class> class Rule, class... Factors>
void Optimizer::Apply(Factors... factors) {
  if (params_.empty()) return;
  const Parameter& first = *params_.front();
  DispatchFloat(first.dtype(), name_, [&]<class T>() {
    std::vector<kernels::UpdatedTensor<T>> tensors;
    for (size_t i = 0; i < params_.size(); ++i) {
      const Parameter::Update update = params_[i]->BeginUpdate();
      tensors.push_back({.grad = params_[i]->grad().data<T>(),
                         .value = update.value.data<T>(),
                         .states = {},
                         .copy = update.copy.defined() ? update.copy.data<BF16>() : nullptr,
                         .n = params_[i]->numel()});
      for (size_t k = 0; k < states_.size(); ++k) tensors.back().states[k] = states_[k][i].data<T>();
    }
    kernels::Run(name_, *first.device(),
                 kernels::Update<Rule, T>{.tensors = tensors, .rule = {static_cast<T>(factors)...}});
  });
}

Sgd::Sgd(std::span<Parameter* const> params, const Options& options)
    : Optimizer("SGD", params), options_(options) {
  Require(options.learning_rate >= 0, "SGD: learning rate is ", options.learning_rate,
          ", expected at least 0");
  Require(options.momentum >= 0 && options.momentum < 1, "SGD: momentum is ", options.momentum,
          ", expected at least 0 and less than 1");
  if (options.momentum > 0) AllocateStates(1);
}

void Sgd::Update(int64_t /*step*/) {
  if (options_.momentum > 0) return Apply<kernels::SgdMomentum>(options_.learning_rate, options_.momentum);
  Apply<kernels::Sgd>(options_.learning_rate);
}

AdamW::AdamW(std::span<Parameter* const> params, const Options& options)
    : Optimizer("AdamW", params), options_(options) {
  Require(options.learning_rate >= 0, "AdamW: learning rate is ", options.learning_rate,
          ", expected at least 0");
  Require(options.weight_decay >= 0, "AdamW: weight decay is ", options.weight_decay,
          ", expected at least 0");
  Require(options.eps > 0, "AdamW: eps is ", options.eps, ", expected more than 0");
  for (const double beta : {options.beta1, options.beta2}) {
    Require(beta >= 0 && beta < 1, "AdamW: beta is ", beta, ", expected at least 0 and less than 1");
  }
  AllocateStates(2);
}

void AdamW::Update(int64_t step) {
  const Options& o = options_;
  const double count = static_cast<double>(step);
  Apply<kernels::AdamW>(1 - o.learning_rate * o.weight_decay, o.beta1, 1 - o.beta1, o.beta2, 1 - o.beta2,
                        o.learning_rate / (1 - std::pow(o.beta1, count)),
                        1 / std::sqrt(1 - std::pow(o.beta2, count)), o.eps);
}

}  // namespace gradsync::model
