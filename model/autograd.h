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

// Reverse-mode automatic differentiation over a graph that is recorded while the forward pass runs.
//
// An operation computes its output, and defines how the gradient of its output becomes gradients of its
// inputs:
//
//   Var Scale(const Var& x, double factor) {
//     Tensor y = ...;                                           // forward
//     return Var::FromOp("scale", y, {x}, [=](OpGradient& op) { // backward, run once
//       op.Contribute(0, [&](const Destination<Tensor>& dx) { ... dx = op.output_grad() * factor ... });
//     });
//   }
//
// A gradient kernel writes to, or adds to, the final place of the gradient. For a parameter this is
// Parameter::grad(), whose memory the owner may choose, for example in a communication bucket: there is no
// temporary, no zero-fill and no copy between the kernel and the bucket.
namespace gradsync::model {

class OpGradient;
struct Node;

// A tensor in the graph: a constant, a parameter, or the output of an operation. Copying a Var copies a
// handle.
class Var {
 public:
  using BackwardFn = std::function<void(OpGradient&)>;

  Var() = default;
  // Makes a constant, which has no gradient.
  explicit Var(Tensor constant) : value_(std::move(constant)) {}
  // Makes a leaf, whose value is parameter.ForwardValue(), or a constant if the parameter is frozen. The
  // parameter must outlive the graph. The constructor is implicit, so that parameters can be passed to
  // operations.
  Var(Parameter& parameter);  // NOLINT(google-explicit-constructor)

  // Returns the output of the operation `name` (a string literal) applied to `inputs`. `backward` is called
  // at most once, when the gradient of `value` is complete. `backward` is destroyed immediately after the
  // call, with all tensors that it keeps. `backward` must contribute exactly once to every input that needs a
  // gradient, beginning with parameters, so that their gradients can be sent early.
  static Var FromOp(const char* name, Tensor value, std::vector<Var> inputs, BackwardFn backward);

  const Tensor& value() const { return value_; }
  bool requires_grad() const { return parameter_ != nullptr || node_ != nullptr; }

 private:
  friend class BackwardPass;
  friend struct Node;
  friend void Backward(const Var& loss, std::span<Parameter* const> params,
                       const std::function<void(Parameter&)>& on_ready,
                       const std::function<void(const Parameter&)>& on_use);

  // Returns whether the tensor was written after an operation read it.
  bool changed() const;

  Tensor value_;
  Tensor::Version read_;               // version of the value when the operation read it
  const Parameter* source_ = nullptr;  // the parameter of the value, frozen or not
  uint64_t version_ = 0;               // version of the source
  Parameter* parameter_ = nullptr;     // set for a leaf
  std::shared_ptr<Node> node_;         // set for the output of an operation
};

// One operation in a backward pass: the gradient of its output, and the destinations of its inputs'
// gradients.
class OpGradient {
 public:
  // Returns the name of the operation.
  const char* name() const;
  // Returns the gradient of the loss with respect to the operation's output.
  const Tensor& output_grad() const { return output_grad_; }

  // Returns whether input i leads to a parameter. Contribute and the calls below ignore inputs that lead to
  // no parameter.
  bool Needs(int i) const;

  // Calls write(grad). `grad` is a Destination<Tensor> with the shape of input i, and `write` must write the
  // contribution of this operation to `grad`. If this is the last contribution and the input is a parameter,
  // the parameter is ready on return. An operation that leaves all rows zero except a few passes these `rows`
  // (Parameter::touched_rows).
  template <class Write>
  void Contribute(int i, Write&& write, const Tensor& rows = {}) {
    if (!Needs(i)) return;
    write(Open(i));
    Close(i, rows);
  }

  // Sets the gradient of input i to the gradient of the output (or to a reshaped view of it). For an
  // intermediate value this needs no copy.
  void PassThrough(int i);

  // For a kernel that computes the gradients of several inputs together: open all destinations, compute, and
  // close all destinations. Requires Needs(i).
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

// Called with a parameter whose gradient is complete.
using GradHook = std::function<void(Parameter&)>;
// Called with a parameter that is about to be read.
using UseHook = std::function<void(const Parameter&)>;

// Computes the gradient of `loss` (one element) with respect to every parameter in `params`, into p.grad().
// If p.has_grad(), the gradient is added to p.grad(). Afterwards p.has_grad() is true for every parameter
// that is not frozen.
//
// Calls on_ready exactly once for each parameter that is not frozen, as soon as its last contribution has
// been added and before any further operation runs. Parameters that the loss does not reach follow at the end
// in list order, zero-filled (or unchanged, if they had a gradient).
//
// Calls on_use with every parameter that an operation has read in forward, before the operation computes its
// gradients, because it may read the parameter's memory again.
//
// Consumes the graph: frees the tensors that operations kept for backward as the pass proceeds. Throws
// std::logic_error, naming operation and input, for a second call on the graph, an operation that does not
// contribute exactly once to an input, and an input that was changed since the operation read it: a parameter
// (Parameter::version), or any other tensor (Tensor::CountWrite). Throws InvalidInput if the loss has more
// than one element, depends on no parameter, or reaches a parameter that is not in `params`, or if `params`
// has a parameter twice.
void Backward(const Var& loss, std::span<Parameter* const> params, const GradHook& on_ready = {},
              const UseHook& on_use = {});

}  // namespace gradsync::model
