#ifndef GRADSYNC_MODEL_OPTIMIZER_H_
#define GRADSYNC_MODEL_OPTIMIZER_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/autograd.h"
#include "model/tensor.h"

namespace gradsync::model {

// Changes parameters by their gradients. State is allocated when the optimizer is made, so that a step
// allocates nothing. Gradients stay as they are: the training loop resets them.
//
// The parameters must outlive the optimizer, which leaves frozen ones alone. They are f32 or f64, all of one
// dtype and on one device, and none is listed twice; constructors throw InvalidInput otherwise. A parameter's
// copy in bf16 is written in the same pass as its value.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update of every parameter by p.grad(). Throws InvalidInput, before any change, if a parameter has no
  // gradient.
  void Step();
  // Back to the state before the first step. The parameters keep their values.
  void Reset();

 protected:
  Optimizer(std::string_view name, std::span<Parameter* const> params);

  // Allocates `count` tensors like each parameter's value, zeroed: at most two.
  void AllocateStates(int count);
  // Applies a rule of kernels/optimizer.h, made of these factors, to every parameter and its states.
  template <template <class> class Rule, class... Factors>
  void Apply(Factors... factors);

 private:
  // Step number `step`, from 1.
  virtual void Update(int64_t step) = 0;

  const std::string_view name_;
  const std::vector<Parameter*> params_;
  std::vector<std::vector<Tensor>> states_;  // for each state one for each parameter
  int64_t step_ = 0;
};

// Gradient descent, with momentum as PyTorch defines it (no dampening): velocity = momentum * velocity +
// grad, value -= learning_rate * velocity. Without momentum there is no state.
class Sgd : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double momentum = 0;
  };

  // Throws InvalidInput for options outside learning_rate >= 0, 0 <= momentum < 1.
  Sgd(std::span<Parameter* const> params, const Options& options);

 private:
  void Update(int64_t step) override;

  const Options options_;
};

// Decoupled Weight Decay Regularization, arXiv:1711.05101, algorithm 2 as PyTorch implements it (weight decay
// is multiplied by the learning rate, eps is added outside of the bias-corrected root).
class AdamW : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
  };

  // Throws InvalidInput for options outside learning_rate, weight_decay >= 0, eps > 0, 0 <= beta < 1.
  AdamW(std::span<Parameter* const> params, const Options& options);

 private:
  void Update(int64_t step) override;

  const Options options_;
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_OPTIMIZER_H_
