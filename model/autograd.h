#ifndef GRADSYNC_MODEL_AUTOGRAD_H_
#define GRADSYNC_MODEL_AUTOGRAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/destination.h"
#include "model/parameter.h"  // IWYU pragma: export
#include "model/tensor.h"

// Reverse-mode automatic differentiation over a graph that is recorded while the forward pass runs.
//
// An operation computes its output and says how its output's gradient becomes its inputs' gradients:
//
//   Var Scale(const Var& x, double factor) {
//     Tensor y = ...;                                           // forward
//     return Var::FromOp("scale", y, {x}, [=](OpGradient& op) { // backward, run once
//       op.Contribute(0, [&](const Destination<Tensor>& dx) { ... dx = op.output_grad() * factor ... });
//     });
//   }
//
// A gradient kernel writes to, or adds to, the place where the gradient finally lives. For a parameter this
// is Parameter::grad(), which its owner may have put anywhere, for example into a communication bucket:
// there is no temporary, no zero-fill and no copy between the kernel and the bucket.
namespace gradsync::model {

class OpGradient;
struct Node;

// A tensor in the graph: a constant, a parameter, or the output of an operation. Copying copies a handle.
class Var {
 public:
  using BackwardFn = std::function<void(OpGradient&)>;

  Var() = default;
  // A constant: no gradient flows into it.
  explicit Var(Tensor constant) : value_(std::move(constant)) {}
  // A leaf, whose value is parameter.ForwardValue(). The parameter must outlive the graph. Implicit, so that
  // parameters can be passed to operations.
  Var(Parameter& parameter);  // NOLINT(google-explicit-constructor)

  // The output of the operation `name` (a string literal) applied to `inputs`. `backward` is called at most
  // once, when the gradient of `value` is complete, and destroyed right after, with all tensors it keeps.
  // It must contribute exactly once to every input that needs it, parameters first: the earlier a parameter
  // is done, the earlier it can be sent.
  static Var FromOp(const char* name, Tensor value, std::vector<Var> inputs, BackwardFn backward);

  const Tensor& value() const { return value_; }
  bool requires_grad() const { return parameter_ != nullptr || node_ != nullptr; }

 private:
  friend class BackwardPass;
  friend struct Node;
  friend void Backward(const Var& loss, std::span<Parameter* const> params,
                       const std::function<void(Parameter&)>& on_ready,
                       const std::function<void(const Parameter&)>& on_use);

  // Whether what an operation has read was written since.
  bool changed() const;

  Tensor value_;
  Tensor::Version read_;            // an operation's input keeps this of the value
  Parameter* parameter_ = nullptr;  // set for a leaf
  uint64_t version_ = 0;            // of the parameter
  std::shared_ptr<Node> node_;      // set for the output of an operation
};

// One operation's share of a backward pass: the gradient that arrives, and where the gradients of its inputs
// are wanted.
class OpGradient {
 public:
  // The operation's.
  const char* name() const;
  // The gradient of the loss with respect to the operation's output.
  const Tensor& output_grad() const { return output_grad_; }

  // Whether input i leads to a parameter. Contribute and the calls below ignore an input that does not.
  bool Needs(int i) const;

  // Calls write(grad), a Destination<Tensor> of input i's shape, to which `write` must bring the contribution
  // of this operation. When it is the input's last one and the input is a parameter, the parameter is ready
  // on return. An operation that leaves all rows of it zero but a few says which: Parameter::touched_rows.
  template <class Write>
  void Contribute(int i, Write&& write, const Tensor& rows = {}) {
    if (!Needs(i)) return;
    write(Open(i));
    Close(i, rows);
  }

  // The gradient of input i is the output's gradient itself (or a reshaped view of it). An intermediate value
  // takes it over without a copy.
  void PassThrough(int i);

  // For a kernel that computes several inputs' gradients at once: open them all, compute, close them all.
  // Requires Needs(i).
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
// Where p.has_grad(), it is added. Afterwards every p.has_grad().
//
// Calls on_ready exactly once for each parameter, as soon as its last contribution has
// been added and before any further operation runs. Parameters that the loss does not reach follow at the end
// in list order, zero-filled (or unchanged, if they had a gradient).
//
// Calls on_use with every parameter that an operation has read in forward before that
// operation computes its gradients, for which it may read the same memory again.
//
// The graph is consumed: what the operations kept for backward is freed as the pass goes, and a second
// call on it throws std::logic_error. So do, naming operation and input, an operation that does not
// contribute exactly once to an input, and an input that was changed since the operation read it: a
// parameter (Parameter::version), or any other tensor (Tensor::CountWrite). Throws
// InvalidInput if the loss has more than one element, depends on no parameter, or reaches one that is not in
// `params`, or if one is there twice.
void Backward(const Var& loss, std::span<Parameter* const> params, const GradHook& on_ready = {},
              const UseHook& on_use = {});

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_AUTOGRAD_H_
