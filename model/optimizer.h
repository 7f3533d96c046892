#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/autograd.h"
#include "model/tensor.h"

namespace gradsync::model {

// A tensor with the name under which it is saved and loaded, as WriteSafetensors takes it.
using NamedTensor = std::pair<std::string, Tensor>;

// Elements [begin, end) of a parameter.
struct Part {
  Parameter* param = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  // The gradient of these elements, of shape (end - begin); if undefined, param->grad() has the gradient.
  Tensor grad = {};
  // The values of these elements, of shape (end - begin); if undefined, param->value() has the values. If it
  // is defined, the parameter itself does not change.
  Tensor value = {};

  bool is_whole() const { return begin == 0 && end == param->numel(); }
};

// Updates parameters with their gradients. The first update or State() allocates the state, zeroed; later
// steps allocate nothing. Gradients do not change: the training loop resets them.
//
// The parameters must outlive the optimizer. All parameters must be f32, or all f64, and on one device, and
// no parameter may be listed twice; otherwise constructors throw InvalidInput. A parameter's copy in bf16 is
// written in the same pass as its value, unless only a part of it is updated.
//
// The update of an element depends only on this element, so results are bitwise equal for every division into
// parts and calls.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter with grad_scale * p.grad(): calls Advance, and Apply for all parameters. Throws
  // InvalidInput, before any change, if a parameter has no gradient.
  void Step(double grad_scale = 1);
  // Advance and Apply together do the work of Step. Advance counts a step. Apply then updates the given
  // parameters (the parts that the optimizer has); call it once for each parameter. Apply throws
  // InvalidInput, before any change, if a parameter has no gradient.
  void Advance() { ++num_steps_; }
  void Apply(std::span<Parameter* const> params, double grad_scale = 1);

  // Sets the learning rate of the next steps. Throws InvalidInput unless it is at least 0.
  void SetLearningRate(double learning_rate);
  double learning_rate() const { return learning_rate_; }

  // Returns an optimizer with the rule, options and learning rate of this optimizer, for these parts only,
  // before its first step. Throws InvalidInput for a part outside of its parameter, or a gradient or value of
  // wrong shape, dtype or device.
  virtual std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const = 0;

  // Returns the state between steps, without the number of steps: "exp_avg.NAME", for a part
  // "exp_avg.NAME[BEGIN:END]", with PyTorch's names of states. The tensors can be read and written.
  std::vector<NamedTensor> State();
  int64_t num_steps() const { return num_steps_; }
  void SetNumSteps(int64_t num_steps) { num_steps_ = num_steps; }
  // Resets the state to before the first step. The parameters keep their values.
  void Reset();

 protected:
  // `states` has the names of at most two states.
  Optimizer(std::string_view name, std::vector<std::string_view> states, std::vector<Part> parts,
            double learning_rate);

  // Applies a rule of kernels/optimizer.h, made of these factors, to these parts and their states.
  template <template <class> class Rule, class... Factors>
  void Run(std::span<const Part* const> parts, double grad_scale, Factors... factors);

 private:
  // Computes step number num_steps(), counted from 1.
  virtual void Update(std::span<const Part* const> parts, double grad_scale) = 0;
  void CheckGradients(std::span<const Part* const> parts) const;
  void AllocateState();

  const std::string_view name_;
  const std::vector<std::string_view> state_names_;
  const std::vector<Part> parts_;
  std::unordered_map<const Parameter*, std::vector<const Part*>> parts_of_;
  std::vector<std::vector<Tensor>> states_;  // states by [name][part], after allocation
  double learning_rate_;
  int64_t num_steps_ = 0;
};

// Gradient descent: value -= learning_rate * grad. Sgd has no state.
class Sgd : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
  };

  // Throws InvalidInput for options outside learning_rate >= 0.
  Sgd(std::span<Parameter* const> params, const Options& options);
  Sgd(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;

 private:
  void Update(std::span<const Part* const> parts, double grad_scale) override;

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
    // If false, weight decay applies only to parameters with two or more dimensions, and not to weights of
    // norms and biases.
    bool decay_vectors = true;
  };

  // Throws InvalidInput for options outside learning_rate, weight_decay >= 0, eps > 0, 0 <= beta < 1.
  AdamW(std::span<Parameter* const> params, const Options& options);
  AdamW(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;

 private:
  void Update(std::span<const Part* const> parts, double grad_scale) override;

  const Options options_;
};

}  // namespace gradsync::model
