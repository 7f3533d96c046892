#ifndef GRADSYNC_MODEL_PARAMETER_H_
#define GRADSYNC_MODEL_PARAMETER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor.h"

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
};

// Throws InvalidInput, which names it, if one is listed twice.
void RequireDistinct(std::span<Parameter* const> params);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_PARAMETER_H_
