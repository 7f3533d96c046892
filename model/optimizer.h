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
#include "model/tensor/tensor.h"

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

// Returns whether Muon updates the parameter as a matrix: the parameter has two dimensions, and is not a
// table (Parameter::SetTable).
inline bool IsMatrix(const Parameter& p) { return p.shape().size() == 2 && !p.is_table(); }

// Updates parameters with their gradients. The first update or State() allocates the state, zeroed; later
// steps allocate nothing. Gradients do not change: the training loop resets them.
//
// The parameters must outlive the optimizer. All parameters must be f32, or all f64, and on one device, and
// no parameter may be listed twice; otherwise constructors throw InvalidInput. A parameter's copy in bf16 is
// written in the same pass as its value, unless only a part of it is updated.
//
// The unit of a rule is one element, or one matrix: the update of a unit depends on no other unit. So
// parameters may be divided into parts and calls in any way that divides no unit, and the results are bitwise
// equal. Constructors throw InvalidInput for a part that divides a unit.
class Optimizer {
 public:
  // With kMatrix, the unit of a parameter that is no matrix is the element.
  enum class Unit { kElement, kMatrix };

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
  // Returns the number of states of a parameter. Each state is as large as the parameter.
  virtual size_t NumStatesOf(const Parameter& /*p*/) const { return state_names_.size(); }
  int64_t num_steps() const { return num_steps_; }
  void SetNumSteps(int64_t num_steps) { num_steps_ = num_steps; }
  // Resets the state to before the first step. The parameters keep their values.
  void Reset();

 protected:
  // `states` has the names of at most two states.
  Optimizer(std::string_view name, Unit unit, std::vector<std::string_view> states, std::vector<Part> parts,
            double learning_rate);

  // Makes a rule of kernels/optimizer.h from these factors, and applies the rule to these parts and their
  // states.
  template <template <class> class Rule, class... Factors>
  void Run(std::span<const Part* const> parts, double grad_scale, Factors... factors);
  // Returns the first state of a part.
  const Tensor& FirstStateOf(const Part& part);

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

 protected:
  AdamW(std::string_view name, Unit unit, std::vector<Part> parts, const Options& options);

  void Update(std::span<const Part* const> parts, double grad_scale) override;

 private:
  const Options options_;
};

// Muon, https://kellerjordan.github.io/posts/muon (Keller Jordan, 2024): the update of a matrix is its
// momentum, orthogonalized: singular values become about 1, from 0.7 to 1.2. With the gradient g, and five
// iterations of the published quintic:
//
//   mean = momentum * mean + (1 - momentum) * g
//   u = (1 - momentum) * g + momentum * mean                     Nesterov's
//   x = u / (|u| + 1e-7)                                         Frobenius norm
//   x = 3.4445 x + (-4.7750 a + 2.0315 a a) x, with a = x x^T    five times; tall matrices are transposed
//   value -= learning_rate * (weight_decay * value + 0.2 * sqrt(max(rows, columns)) * x)
//
// The factor 0.2 * sqrt(max(rows, columns)) is Moonlight's (arXiv:2502.16982, section 2.2; PyTorch:
// adjust_lr_fn="match_rms_adamw"): an update is about as large as AdamW's, so that one learning rate serves
// all parameters. Keller Jordan's own, sqrt(max(1, rows / columns)), needs a second rate. AdamW updates all
// parameters that are not matrices (IsMatrix). A matrix has one state, exp_avg. The first update of the
// largest matrix allocates a workspace.
class Muon : public AdamW {
 public:
  struct Options {
    AdamW::Options adamw = {};  // its learning rate and weight decay are for matrices, too
    double momentum = 0.95;
    // If true, iterates in bf16, as published; else in the parameters' type, f32 or f64.
    bool in_bf16 = false;
  };

  // Throws InvalidInput like AdamW, and for options outside 0 <= momentum < 1.
  Muon(std::span<Parameter* const> params, const Options& options);
  Muon(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;
  size_t NumStatesOf(const Parameter& p) const override { return IsMatrix(p) ? 1 : 2; }

 private:
  void Update(std::span<const Part* const> parts, double grad_scale) override;
  template <class T>
  void UpdateMatrix(const Part& part, double grad_scale);
  // The matrix `tensor` times `factor`.
  struct Scaled {
    Tensor tensor;
    double factor;
  };
  // Runs the five iterations on `u`, in type T. Overwrites `u`.
  template <class T>
  Scaled Orthogonalize(const Tensor& u);
  // Returns the i-th tensor of the workspace, with this shape and dtype.
  Tensor Workspace(size_t i, const Tensor& like, Shape shape, DType dtype);

  const Options options_;
  std::vector<Tensor> workspace_;  // bytes
};

}  // namespace gradsync::model
