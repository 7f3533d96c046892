#include "model/optimizer.h"

#include <cmath>

#include "model/kernels/optimizer.h"

namespace gradsync::model {
namespace {

void Zero(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) tensor.Zero();
}

}  // namespace

Optimizer::Optimizer(std::span<Parameter* const> params) : params_(params.begin(), params.end()) {
  for (const Parameter* p : params_) {
    const Tensor& value = p->value();
    Require(value.device()->is_cpu(), "optimizer: parameter '", p->name(), "' is on ", value.device()->name(),
            ", expected cpu");
    Require(value.dtype() == DType::kF32 || value.dtype() == DType::kF64, "optimizer: parameter '", p->name(),
            "' is ", Name(value.dtype()), ", expected f32 or f64");
  }
}

void Optimizer::RequireGradients() const {
  for (const Parameter* p : params_) {
    Require(p->has_grad(), "optimizer: parameter '", p->name(),
            "' has no gradient; Backward comes before Step");
  }
}

std::vector<Tensor> Optimizer::ZeroState() const {
  std::vector<Tensor> state;
  for (const Parameter* p : params_) {
    state.push_back(Tensor::Zeros(p->value().device(), p->value().shape(), p->value().dtype()));
  }
  return state;
}

Sgd::Sgd(std::span<Parameter* const> params, const Options& options) : Optimizer(params), options_(options) {
  Require(options.learning_rate >= 0, "SGD: learning rate is ", options.learning_rate,
          ", expected at least 0");
  Require(options.momentum >= 0 && options.momentum < 1, "SGD: momentum is ", options.momentum,
          ", expected at least 0 and less than 1");
  if (options.momentum > 0) velocities_ = ZeroState();
}

void Sgd::Step() {
  RequireGradients();
  for (size_t i = 0; i < params().size(); ++i) {
    Parameter& p = *params()[i];
    const Tensor& value = p.value();
    DispatchFloat(value.dtype(), "SGD", [&]<class T>() {
      const T* grad = p.grad().data<T>();
      if (velocities_.empty()) {
        kernels::cpu::Sgd(*value.device(), value.numel(), options_.learning_rate, grad, value.data<T>());
      } else {
        kernels::cpu::SgdMomentum(*value.device(), value.numel(), options_.learning_rate, options_.momentum,
                                  grad, velocities_[i].data<T>(), value.data<T>());
      }
    });
  }
}

void Sgd::Reset() { Zero(velocities_); }

AdamW::AdamW(std::span<Parameter* const> params, const Options& options)
    : Optimizer(params), options_(options) {
  Require(options.learning_rate >= 0, "AdamW: learning rate is ", options.learning_rate,
          ", expected at least 0");
  Require(options.weight_decay >= 0, "AdamW: weight decay is ", options.weight_decay,
          ", expected at least 0");
  Require(options.eps > 0, "AdamW: eps is ", options.eps, ", expected more than 0");
  for (const double beta : {options.beta1, options.beta2}) {
    Require(beta >= 0 && beta < 1, "AdamW: beta is ", beta, ", expected at least 0 and less than 1");
  }
  means_ = ZeroState();
  squares_ = ZeroState();
}

void AdamW::Step() {
  RequireGradients();
  ++step_;
  const double count = static_cast<double>(step_);
  const kernels::cpu::AdamWFactors factors{
      .decay = 1 - options_.learning_rate * options_.weight_decay,
      .beta1 = options_.beta1,
      .beta2 = options_.beta2,
      .step_size = options_.learning_rate / (1 - std::pow(options_.beta1, count)),
      .scale = 1 / std::sqrt(1 - std::pow(options_.beta2, count)),
      .eps = options_.eps};
  for (size_t i = 0; i < params().size(); ++i) {
    Parameter& p = *params()[i];
    const Tensor& value = p.value();
    DispatchFloat(value.dtype(), "AdamW", [&]<class T>() {
      kernels::cpu::AdamW(*value.device(), value.numel(), factors, p.grad().data<T>(), means_[i].data<T>(),
                          squares_[i].data<T>(), value.data<T>());
    });
  }
}

void AdamW::Reset() {
  step_ = 0;
  Zero(means_);
  Zero(squares_);
}

}  // namespace gradsync::model
