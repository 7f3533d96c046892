#include "model/optimizer.h"

#include <cmath>

#include "model/kernels/optimizer.h"

namespace gradsync::model {
namespace {

void Zero(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) tensor.Zero();
}

// Null without a copy.
BF16* CopyOf(const Parameter::Update& update) {
  return update.copy.defined() ? update.copy.data<BF16>() : nullptr;
}

}  // namespace

Optimizer::Optimizer(std::span<Parameter* const> params) : params_(Trained(params)) {
  for (const Parameter* p : params_) {
    const Parameter& first = *params_.front();
    Require(p->device() == first.device() && p->dtype() == first.dtype(), "optimizer: parameter '", p->name(),
            "' is ", Name(p->dtype()), " on ", p->device()->name(), ", '", first.name(), "' is ",
            Name(first.dtype()), " on ", first.device()->name(), ", expected one dtype and device");
    Require(p->dtype() == DType::kF32 || p->dtype() == DType::kF64, "optimizer: parameter '", p->name(),
            "' is ", Name(p->dtype()), ", expected f32 or f64");
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
    state.push_back(Tensor::Zeros(p->device(), p->shape(), p->dtype()));
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
  if (params().empty()) return;
  const Parameter& first = *params().front();
  DispatchFloat(first.dtype(), "SGD", [&]<class T>() {
    std::vector<kernels::SgdTensor<T>> tensors;
    for (size_t i = 0; i < params().size(); ++i) {
      const Parameter::Update update = params()[i]->BeginUpdate();
      tensors.push_back({.grad = params()[i]->grad().data<T>(),
                         .velocity = velocities_.empty() ? nullptr : velocities_[i].data<T>(),
                         .value = update.value.data<T>(),
                         .copy = CopyOf(update),
                         .n = params()[i]->numel()});
    }
    kernels::Run(
        "SGD", *first.device(),
        kernels::Sgd<T>{
            .tensors = tensors, .learning_rate = options_.learning_rate, .momentum = options_.momentum});
  });
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
  const kernels::AdamWFactors factors{
      .decay = 1 - options_.learning_rate * options_.weight_decay,
      .beta1 = options_.beta1,
      .beta2 = options_.beta2,
      .step_size = options_.learning_rate / (1 - std::pow(options_.beta1, count)),
      .scale = 1 / std::sqrt(1 - std::pow(options_.beta2, count)),
      .eps = options_.eps};
  if (params().empty()) return;
  const Parameter& first = *params().front();
  DispatchFloat(first.dtype(), "AdamW", [&]<class T>() {
    std::vector<kernels::AdamWTensor<T>> tensors;
    for (size_t i = 0; i < params().size(); ++i) {
      const Parameter::Update update = params()[i]->BeginUpdate();
      tensors.push_back({.grad = params()[i]->grad().data<T>(),
                         .mean = means_[i].data<T>(),
                         .square = squares_[i].data<T>(),
                         .value = update.value.data<T>(),
                         .copy = CopyOf(update),
                         .n = params()[i]->numel()});
    }
    kernels::Run("AdamW", *first.device(), kernels::AdamW<T>{.tensors = tensors, .factors = factors});
  });
}

void AdamW::Reset() {
  step_ = 0;
  Zero(means_);
  Zero(squares_);
}

}  // namespace gradsync::model
