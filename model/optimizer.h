#ifndef GRADSYNC_MODEL_OPTIMIZER_H_
#define GRADSYNC_MODEL_OPTIMIZER_H_

#include <cstdint>
#include <span>
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
  virtual void Step() = 0;
  // Back to the state before the first step. The parameters keep their values.
  virtual void Reset() = 0;

 protected:
  explicit Optimizer(std::span<Parameter* const> params);

  std::span<Parameter* const> params() const { return params_; }
  void RequireGradients() const;
  // A zeroed tensor like each parameter's value.
  std::vector<Tensor> ZeroState() const;

 private:
  const std::vector<Parameter*> params_;
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

  void Step() override;
  void Reset() override;

 private:
  const Options options_;
  std::vector<Tensor> velocities_;  // empty without momentum
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

  void Step() override;
  void Reset() override;

 private:
  const Options options_;
  std::vector<Tensor> means_;
  std::vector<Tensor> squares_;
  int64_t step_ = 0;
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_OPTIMIZER_H_
