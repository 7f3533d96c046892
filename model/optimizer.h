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

// A tensor with its name in a checkpoint file.
using NamedTensor = std::pair<std::string, Tensor>;

// A part of a parameter that an optimizer updates: elements [begin, end) of the flattened parameter `param`.
struct Part {
  Parameter* param = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  // The gradient of elements [begin, end) of `param`: a tensor of end - begin elements. If `grad` is
  // undefined, the optimizer reads elements [begin, end) of param->grad().
  Tensor grad = {};
  // If defined, the optimizer updates this tensor of end - begin elements, and not param->value().
  Tensor value = {};

  bool is_whole() const { return begin == 0 && end == param->numel(); }
};

// Returns whether the Muon optimizer updates the parameter as a matrix: it has two dimensions, and is not an
// embedding or output layer (Parameter::SetTable).
inline bool IsMatrix(const Parameter& p) { return p.shape().size() == 2 && !p.is_table(); }

// An optimizer updates parameters with their gradients, and does not change or reset the gradients. The first
// update or call of State() allocates the optimizer's state, such as AdamW's moments, filled with zeros.
//
// The parameters must outlive the optimizer. All parameters must be f32, or all f64, and on one device;
// otherwise constructors throw InvalidInput. Constructors with a list `params` ignore frozen parameters
// (Parameter::Freeze), and throw InvalidInput if a parameter is listed twice. Constructors with a list
// `parts` do not check whether two parts have an element in common.
//
// SGD and AdamW update each element independently of all others, so several optimizers, for example on
// different ranks, may each update a part of a parameter, with bitwise the same result as one optimizer. Muon
// needs whole matrices: its constructors throw InvalidInput for a part of a matrix.
class Optimizer {
 public:
  // With kElement, an optimizer can update each element of a parameter independently of all others. With
  // kMatrix, an optimizer can update a matrix (IsMatrix) only as a whole, but each element of other
  // parameters independently.
  enum class Unit { kElement, kMatrix };

  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Takes one step: updates every parameter or part with grad_scale times its gradient. If a gradient is
  // missing, throws InvalidInput and updates nothing.
  void Step(double grad_scale = 1);
  // Advance and Apply do the work of Step for some parameters at a time, so that a parameter can be updated
  // as soon as its gradient is complete. In each step, call Advance once, and then pass each parameter that
  // this optimizer updates to Apply once. Apply skips parameters that this optimizer does not update. If a
  // parameter that Apply must update has no gradient, Apply throws InvalidInput and updates nothing.
  void Advance() { ++num_steps_; }
  void Apply(std::span<Parameter* const> params, double grad_scale = 1);

  // Sets the learning rate of later steps. Throws InvalidInput if `learning_rate` is negative or NaN.
  void SetLearningRate(double learning_rate);
  double learning_rate() const { return learning_rate_; }

  // Returns a new optimizer that updates only `parts`, and that has taken no step. The new optimizer has the
  // rule, the options and the learning rate of this optimizer. Throws InvalidInput if a part is not inside
  // its parameter, if its `grad` or `value` has a wrong size, dtype or device, or, in Muon, if it has only
  // some elements of a matrix.
  virtual std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const = 0;

  // Returns the state tensors, such as AdamW's moments, for checkpoints; writing to them changes the state.
  // For example, AdamW's tensor exp_avg of the parameter NAME is called "exp_avg.NAME", or
  // "exp_avg.NAME[BEGIN:END]" for a part of the parameter.
  std::vector<NamedTensor> State();
  // Returns the number of state tensors for parameter `p` or, if the optimizer updates parts of `p`, for each
  // of these parts. Each state tensor has as many elements as the parameter or, for a part, as this part.
  virtual size_t NumStatesOf(const Parameter& /*p*/) const { return state_names_.size(); }
  int64_t num_steps() const { return num_steps_; }
  void SetNumSteps(int64_t num_steps) { num_steps_ = num_steps; }
  // Fills the state with zeros and sets num_steps() to 0. The parameters and the learning rate keep their
  // values.
  void Reset();

 protected:
  // `states` are the names of a parameter's state tensors, such as "exp_avg": at most two. A parameter p has
  // only the first NumStatesOf(p) of these state tensors.
  Optimizer(std::string_view name, Unit unit, std::vector<std::string_view> states, std::vector<Part> parts,
            double learning_rate);

  // Updates the parts of parameters in `parts`, and the state tensors of these parts, by the formula Rule: a
  // struct of model/kernels/optimizer.h such as kernels::AdamW. `factors` are the values of the members of
  // the struct Rule, such as the learning rate, in the order of their declaration.
  template <template <class> class Rule, class... Factors>
  void Run(std::span<const Part* const> parts, double grad_scale, Factors... factors);
  const Tensor& FirstStateOf(const Part& part);

 private:
  // Updates each Part in `parts` with grad_scale times its gradient. num_steps() is the number of the current
  // training step, counted from 1.
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

// Gradient descent without momentum: value -= learning_rate * grad.
class Sgd : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
  };

  // The constructors throw InvalidInput if the learning rate is negative or NaN.
  Sgd(std::span<Parameter* const> params, const Options& options);
  Sgd(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;

 private:
  void Update(std::span<const Part* const> parts, double grad_scale) override;

  const Options options_;
};

// The optimizer AdamW (arXiv:1711.05101), with the formulas of PyTorch's torch.optim.AdamW.
class AdamW : public Optimizer {
 public:
  struct Options {
    double learning_rate = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    // If false, weight decay does not apply to parameters with fewer than two dimensions (biases, weights of
    // norms).
    bool decay_vectors = true;
  };

  // The constructors throw InvalidInput unless learning_rate >= 0, weight_decay >= 0, eps > 0, 0 <= beta1 < 1
  // and 0 <= beta2 < 1.
  AdamW(std::span<Parameter* const> params, const Options& options);
  AdamW(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;

 protected:
  AdamW(std::string_view name, Unit unit, std::vector<Part> parts, const Options& options);

  void Update(std::span<const Part* const> parts, double grad_scale) override;

 private:
  const Options options_;
};

// Muon, https://kellerjordan.github.io/posts/muon (Keller Jordan, 2024): the update of a matrix is the
// momentum of its gradients, orthogonalized: most singular values become about 1 (from 0.7 to 1.2), but very
// small ones stay small. With the gradient g:
//
//   mean = momentum * mean + (1 - momentum) * g
//   u = (1 - momentum) * g + momentum * mean                     Nesterov's
//   x = u / (|u| + 1e-7)                                         Frobenius norm
//   x = 3.4445 x + (-4.7750 a + 2.0315 a a) x, with a = x x^T    five times; tall matrices are transposed
//   value -= learning_rate * (weight_decay * value + 0.2 * sqrt(max(rows, columns)) * x)
//
// The factor 0.2 * sqrt(max(rows, columns)) is from Moonlight (arXiv:2502.16982, section 2.2), and the same
// as that of PyTorch's Muon with adjust_lr_fn="match_rms_adamw". This factor makes updates about as large as
// AdamW's, so that matrices need no learning rate of their own. Muon updates all parameters that are not
// matrices (IsMatrix) by AdamW's formulas.
class Muon : public AdamW {
 public:
  struct Options {
    AdamW::Options adamw = {};  // learning rate and weight decay are for matrices, too
    double momentum = 0.95;
    // If true, orthogonalizes the updates of f32 parameters in bf16, as the author of Muon does; else in the
    // parameters' dtype.
    bool in_bf16 = false;
  };

  // Muon's constructors throw InvalidInput if momentum is not in [0, 1) or options.adamw is invalid for
  // AdamW.
  Muon(std::span<Parameter* const> params, const Options& options);
  Muon(std::vector<Part> parts, const Options& options);

  std::unique_ptr<Optimizer> ForParts(std::vector<Part> parts) const override;
  size_t NumStatesOf(const Parameter& p) const override { return IsMatrix(p) ? 1 : 2; }

 private:
  void Update(std::span<const Part* const> parts, double grad_scale) override;
  template <class T>
  void UpdateMatrix(const Part& part, double grad_scale);
  // Represents the matrix factor * tensor. The product is not computed, which saves a pass over memory.
  struct Scaled {
    Tensor tensor;
    double factor;
  };
  // Returns the matrix `u`, orthogonalized by the five iterations in the comment of class Muon. T is the type
  // of the elements that the iterations' matrix products multiply. The function overwrites `u`.
  template <class T>
  Scaled Orthogonalize(const Tensor& u);
  // Returns slot `i` of the reused scratch memory (workspace_[i]) as a tensor of the given shape and dtype,
  // on the device of `like`. The elements of this tensor are not initialised. A later call with the same `i`
  // returns a tensor in the same memory if this memory is large enough.
  Tensor Workspace(size_t i, const Tensor& like, Shape shape, DType dtype);

  const Options options_;
  std::vector<Tensor> workspace_;  // bytes
};

}  // namespace gradsync::model
