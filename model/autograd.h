#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/parameter.h"  // IWYU pragma: export
#include "model/tensor/destination.h"
#include "model/tensor/tensor.h"

// Implements reverse-mode automatic differentiation over a graph that is recorded while the forward pass
// runs.
//
// An operation computes its output, and defines how to compute the gradients of its inputs in backward:
//
//   Var Scale(const Var& x, double factor) {
//     Tensor y = ...;                                           // forward
//     return Var::FromOp("scale", y, {x}, [=](OpGradient& op) { // backward, run once
//       op.Contribute(0, [&](const Destination<Tensor>& dx) { ... dx = op.output_grad() * factor ... });
//     });
//   }
//
// A kernel that computes a gradient writes its result directly to the gradient's memory, or adds its result
// to the values there. The gradient of a parameter is Parameter::grad(), a tensor that may be in a buffer
// from which gradients are sent to other ranks (Parameter::PlaceGrad).
namespace gradsync::model {

class OpGradient;
struct Node;

// A tensor in the graph: a constant, a parameter, or the output of an operation. Copies of a Var share the
// elements of its tensor.
class Var {
 public:
  using BackwardFn = std::function<void(OpGradient&)>;

  Var() = default;
  // Makes a Var that is a constant, which gets no gradient.
  explicit Var(Tensor constant) : value_(std::move(constant)) {}
  // Makes a Var with the value parameter.ForwardValue(): a leaf of the graph, which gets a gradient, or a
  // constant if the parameter is frozen. The parameter must outlive the graph.
  Var(Parameter& parameter);  // NOLINT(google-explicit-constructor)

  // Returns a Var for `value`, the output of the operation `name` (a string literal) for `inputs`. `backward`
  // is called at most once, when the gradient of `value` is complete, and is then destroyed, which releases
  // the tensors that it has captured. `backward` must contribute exactly once to the gradient of every input
  // for which OpGradient::Needs is true. `backward` should contribute to inputs that are parameters first, so
  // that ranks can send the gradients of parameters early.
  static Var FromOp(const char* name, Tensor value, std::vector<Var> inputs, BackwardFn backward);

  const Tensor& value() const { return value_; }
  bool requires_grad() const { return parameter_ != nullptr || node_ != nullptr; }

 private:
  friend class BackwardPass;
  friend struct Node;
  friend void Backward(const Var& loss, std::span<Parameter* const> params,
                       const std::function<void(Parameter&)>& on_ready,
                       const std::function<void(const Parameter&)>& on_use);

  // Returns whether this Var's tensor, an input of an operation, has been written or moved since the
  // operation read it in forward. Call changed() only for a Var that FromOp has stored in Node::inputs.
  // changed() detects only writes and moves that Tensor::Version or Parameter::version counts.
  bool changed() const;

  Tensor value_;
  Tensor::Version read_;               // version of the value when the operation read it
  const Parameter* source_ = nullptr;  // the parameter of the value, frozen or not
  uint64_t version_ = 0;               // version of the source
  Parameter* parameter_ = nullptr;     // set for a leaf
  std::shared_ptr<Node> node_;         // set for the output of an operation
};

// The argument of an operation's backward function. The backward function reads the gradient of the
// operation's output by output_grad(). The backward function adds to the gradients of the inputs by
// Contribute(), by PassThrough(), or by Open() and Close().
class OpGradient {
 public:
  const char* name() const;
  // Returns the gradient of the loss with respect to the operation's output.
  const Tensor& output_grad() const { return output_grad_; }

  // Returns whether the operation's input i needs a gradient: it is a parameter that is not frozen, or
  // depends on one. Contribute and PassThrough do nothing for an input that needs no gradient.
  bool Needs(int i) const;

  // Calls write(grad), which must write this operation's contribution to the gradient of input i to
  // grad.data, or add it to grad.data if grad.accumulate is true. `grad` is a Destination<Tensor>: a tensor
  // with the input's shape, and the flag `accumulate`. If the contribution completes a parameter's gradient,
  // Backward's argument on_ready is called for the parameter before Contribute returns. If `rows` is defined,
  // it is an i32 tensor of row numbers, and the contribution is zero in all other rows.
  template <class Write>
  void Contribute(int i, Write&& write, const Tensor& rows = {}) {
    if (!Needs(i)) return;
    write(Open(i));
    Close(i, rows);
  }

  // Adds the gradient of the operation's output, viewed in the shape of input i, to the gradient of input i.
  // If input i is no parameter, and nothing has been added to its gradient before, PassThrough copies no
  // elements.
  void PassThrough(int i);

  // Call Open and Close, instead of Contribute, if one kernel computes the gradients of several inputs
  // together. Open(i) returns the Destination of input i's gradient: the kernel must overwrite its tensor, or
  // add to it if its flag `accumulate` is true. Call Open for each input that needs a gradient, run the
  // kernel, and call Close for each of these inputs. Two inputs that are open at once must not be the same
  // parameter or the same operation's output.
  Destination<Tensor> Open(int i);
  void Close(int i, const Tensor& rows = {});

 private:
  friend class BackwardPass;
  OpGradient(class BackwardPass& pass, Node& node, Tensor output_grad)
      : pass_(pass), node_(node), output_grad_(std::move(output_grad)) {}

  class BackwardPass& pass_;
  Node& node_;
  Tensor output_grad_;
};

using GradHook = std::function<void(Parameter&)>;
using UseHook = std::function<void(const Parameter&)>;

// Computes the gradient of `loss` (one element) with respect to every parameter p of `params` that is not
// frozen. Adds the gradient to p.grad() if p.has_grad(), else overwrites p.grad().
//
// Calls the function on_ready exactly once for each parameter of `params` that is not frozen, as soon as its
// gradient is complete and before another operation's backward runs. At the end, Backward calls on_ready for
// the parameters on which the loss does not depend, in the order of `params`; the gradient of such a
// parameter is set to zero if has_grad() was false.
//
// Before each operation's backward, Backward calls the function on_use with every parameter, frozen or not,
// that is an input of the operation, because the operation's backward may read the parameter's memory again.
//
// A graph can be used for one Backward only, because the tensors that an operation has captured are released
// after its backward. Throws std::logic_error for a second Backward of the same graph, for an operation that
// does not contribute exactly once to an input that needs a gradient, and for an input that has been changed
// since the operation read it. Throws InvalidInput if the loss does not have one element, is itself a
// parameter, or depends on no parameter except frozen ones. Also throws InvalidInput if the loss depends on
// an unfrozen parameter that is not in `params`, or `params` has a parameter twice.
void Backward(const Var& loss, std::span<Parameter* const> params, const GradHook& on_ready = {},
              const UseHook& on_use = {});

}  // namespace gradsync::model
