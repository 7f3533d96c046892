#ifndef GRADSYNC_MODEL_AUTOGRAD_H_
#define GRADSYNC_MODEL_AUTOGRAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/destination.h"
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

// A trainable tensor with a name and a gradient of the same shape and dtype.
//
// With a copy in bf16 the value is f32, and so are its gradient and whatever optimizers and collectives see;
// only operations read the copy, which is the value rounded. The copy is stale after each MutableValue(), and
// while other handles to its own storage exist, because their owners may write. Then the next
// ForwardValue() casts it again, which takes a pass over memory. An optimizer avoids that pass by writing
// both at once, see BeginUpdate(). To write, call MutableValue() each time: writes through value(), or
// through a pointer from before the last ForwardValue(), are not noticed.
class Parameter {
 public:
  enum class Copy { kNone, kBF16 };
  using ReadHook = std::function<void()>;

  // Throws InvalidInput for a copy of a value that is not f32.
  Parameter(std::string name, Tensor value, Copy copy = Copy::kNone);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return value_.shape(); }
  DType dtype() const { return value_.dtype(); }
  const DevicePtr& device() const { return value_.device(); }
  int64_t numel() const { return value_.numel(); }

  // To read.
  const Tensor& value() const { return place_.defined() ? place_ : value_; }
  // To write.
  const Tensor& MutableValue() {
    copy_is_fresh_ = false;
    ++version_;
    return value();
  }
  // From now on the value is what `place` holds; with an undefined one, what the parameter's own memory
  // holds, which has stayed as it was. Who writes there through another handle calls MutableValue() too.
  // Throws InvalidInput if shape, dtype or device differ.
  void PlaceValue(Tensor place);
  // The same for what operations read, of ForwardValue()'s shape and dtype. If that is the copy, the value
  // stays where it is, and who fills `place` rounds it: ForwardValue() no longer does.
  void PlaceForwardValue(Tensor place);
  // From now on `on_read` is called whenever an operation of a forward pass is about to read the parameter,
  // or anyone calls ForwardValue(); an empty one: nothing is. It may change what is in placed memory.
  void SetOnRead(ReadHook on_read) { on_read_ = std::move(on_read); }
  // Takes back PlaceValue, PlaceForwardValue and SetOnRead.
  void TakeBack();
  bool has_copy() const { return copy_.defined(); }
  // How much of the parameter's own memory for value and copy is in use. What has been placed elsewhere does
  // not count.
  size_t own_bytes() const;
  // Counts the calls of MutableValue() and BeginUpdate(). Backward refuses a graph that was recorded at
  // another version.
  uint64_t version() const { return version_; }
  // What operations read: the copy if there is one, cast again if it is stale; else the value.
  const Tensor& ForwardValue() const;

  // For a caller that writes the value, and the value rounded to the copy, which is undefined if there is
  // none.
  struct Update {
    const Tensor& value;
    const Tensor& copy;
  };
  Update BeginUpdate() {
    copy_is_fresh_ = true;
    ++version_;
    return {value(), copy_};
  }

  // Where Backward puts the gradient. Allocated when first asked for, unless PlaceGrad came before.
  const Tensor& grad();
  // From now on the gradient lives in `place`, usually a view into a larger buffer; an undefined one: where
  // grad() allocates it anew. Contents and has_grad() are left as they are. Throws InvalidInput if shape,
  // dtype or device differ from the value's.
  void PlaceGrad(Tensor place);

  // Whether grad() holds a gradient. The next Backward overwrites it if not, and adds to it if so.
  bool has_grad() const { return has_grad_; }
  // Forgets the gradient without touching memory; to be called before each step's first Backward.
  void ResetGrad() {
    has_grad_ = false;
    any_row_ = false;
    touched_rows_.clear();
  }
  // Declares that grad() has been filled, or added to: in these rows alone, if they are given (i32 ids).
  void MarkGrad(const Tensor& rows = {}) {
    has_grad_ = true;
    if (rows.defined()) touched_rows_.push_back(rows);
    any_row_ |= !rows.defined();
  }
  // Declares that grad() has been filled with zeros, so that the next Backward adds to them.
  void MarkZeroGrad() {
    ResetGrad();
    has_grad_ = true;
  }
  // The only rows of grad(), which is (rows, ...), that may be other than zero: i32 ids, some more than once,
  // in a tensor for each operation that contributed. Null if one of them has not said which.
  const std::vector<Tensor>* touched_rows() const { return any_row_ ? nullptr : &touched_rows_; }

  // From now on operations see a constant. To be called before an optimizer or a strategy is made of a list
  // of parameters: they leave it out, as Backward does.
  void Freeze() { frozen_ = true; }
  bool frozen() const { return frozen_; }

 private:
  void CheckPlace(const char* what, const Tensor& place, DType dtype) const;
  void MoveTo(Tensor place, Tensor* from);

  const std::string name_;
  const Tensor value_;  // unless place_ is defined
  Tensor place_;
  Tensor copy_;  // unless copy_place_ is defined
  Tensor copy_place_;
  ReadHook on_read_;
  mutable bool copy_is_fresh_ = false;
  uint64_t version_ = 0;
  Tensor grad_;
  bool has_grad_ = false;
  bool any_row_ = false;  // may be other than zero
  std::vector<Tensor> touched_rows_;
  bool frozen_ = false;
};

// Those of `params` that are not frozen, in their order. Throws InvalidInput, which names it, if one is
// listed twice.
std::vector<Parameter*> Trained(std::span<Parameter* const> params);

class OpGradient;
struct Node;

// A tensor in the graph: a constant, a parameter, or the output of an operation. Copying copies a handle.
class Var {
 public:
  using BackwardFn = std::function<void(OpGradient&)>;

  Var() = default;
  // A constant: no gradient flows into it.
  explicit Var(Tensor constant) : value_(std::move(constant)) {}
  // A leaf, whose value is parameter.ForwardValue(); a constant if it is frozen. The parameter must outlive
  // the graph. Implicit, so that parameters can be passed to operations.
  Var(Parameter& parameter);  // NOLINT(google-explicit-constructor)

  // The output of the operation `name` (a string literal) applied to `inputs`. `backward` is called at most
  // once, when the gradient of `value` is complete, and destroyed right after, with all tensors it keeps.
  // It must contribute exactly once to every input that needs it, parameters first: the earlier a parameter
  // is done, the earlier it can be sent.
  static Var FromOp(const char* name, Tensor value, std::vector<Var> inputs, BackwardFn backward);

  const Tensor& value() const { return value_; }
  bool requires_grad() const { return parameter_ != nullptr || node_ != nullptr; }
  bool is_parameter() const { return parameter_ != nullptr; }

 private:
  friend class BackwardPass;
  friend struct Node;
  friend void Backward(const Var& loss, std::span<Parameter* const> params,
                       const std::function<void(Parameter&)>& on_ready,
                       const std::function<void(const Parameter&)>& on_use);

  // Whether what an operation has read was written since.
  bool changed() const;

  Tensor value_;
  Tensor::Version read_;               // an operation's input keeps this of the value
  const Parameter* source_ = nullptr;  // whose value it is, frozen or not
  uint64_t version_ = 0;               // of the source
  Parameter* parameter_ = nullptr;     // set for a leaf
  std::shared_ptr<Node> node_;         // set for the output of an operation
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
// Where p.has_grad(), it is added. Afterwards every p.has_grad(), except for frozen ones.
//
// Calls on_ready exactly once for each parameter that is not frozen, as soon as its last contribution has
// been added and before any further operation runs. Parameters that the loss does not reach follow at the end
// in list order, zero-filled (or unchanged, if they had a gradient).
//
// Calls on_use with every parameter, frozen or not, that an operation has read in forward before that
// operation computes its gradients, for which it may read the same memory again.
//
// The graph is consumed: what the operations kept for backward is freed as the pass goes, and a second
// call on it throws std::logic_error. So do, naming operation and input, an operation that does not
// contribute exactly once to an input, and an input that was changed since the operation read it: a
// parameter, frozen or not (Parameter::version), or any other tensor (Tensor::CountWrite). Throws
// InvalidInput if the loss has more than one element, depends on no parameter, or reaches one that is not in
// `params`, or if one is there twice.
void Backward(const Var& loss, std::span<Parameter* const> params, const GradHook& on_ready = {},
              const UseHook& on_use = {});

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_AUTOGRAD_H_
