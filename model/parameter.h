#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor/tensor.h"

namespace gradsync::model {

// A Parameter has a name, a trainable tensor (the value) and its gradient, of the same shape and dtype.
//
// A parameter may have a copy in bf16: its rounded value, which the operations of the model read instead of
// the value. The value and the gradient of a parameter with a copy are f32. Unless PlaceForwardValue moved
// the copy, ForwardValue() rounds the value into the copy if the value may have changed since the last
// rounding. An optimizer that updates whole parameters makes this rounding unnecessary, because it writes
// value and copy together (BeginUpdate()).
//
// Code that writes the value must call MutableValue() before each write, or BeginUpdate() if it also writes
// the copy. Without these calls, ForwardValue() may return an old copy, and Backward may not detect that a
// parameter has changed since forward.
class Parameter {
 public:
  enum class Copy { kNone, kBF16 };
  using ReadHook = std::function<void()>;

  // Throws InvalidInput if `copy` is kBF16 and the value is not f32.
  Parameter(std::string name, Tensor value, Copy copy = Copy::kNone);
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return value_.shape(); }
  DType dtype() const { return value_.dtype(); }
  const DevicePtr& device() const { return value_.device(); }
  int64_t numel() const { return value_.numel(); }

  const Tensor& value() const { return place_.defined() ? place_ : value_; }
  const Tensor& MutableValue() {
    copy_is_fresh_ = false;
    ++version_;
    return value();
  }
  // Makes the tensor `place` the memory of the parameter's value(); no elements are copied. If `place` is
  // undefined, the value is again in the parameter's own memory, and has the contents of this memory. Throws
  // InvalidInput if the shape, dtype or device of `place` differs from the value's.
  void PlaceValue(Tensor place);
  // Makes `place` the memory of the tensor that ForwardValue() returns: the copy in bf16 if the parameter has
  // one, else the value. If the parameter has a copy, ForwardValue() no longer rounds: the code that fills
  // `place` must write rounded values. If `place` is undefined, ForwardValue() returns the parameter's own
  // memory again: the copy, to which the value is rounded, or else the value.
  void PlaceForwardValue(Tensor place);
  // Sets a function that every ForwardValue() calls first, for example to wait until the parameter's values
  // have been received. An empty `on_read` removes the function.
  void SetOnRead(ReadHook on_read) { on_read_ = std::move(on_read); }
  void TakeBack();
  bool has_copy() const { return copy_.defined(); }
  // Returns how many bytes the value and its copy in bf16 occupy in the memory that the parameter's
  // constructor got or allocated. After PlaceValue(place) has moved the value to the caller's memory `place`,
  // the value's bytes are not counted. After PlaceForwardValue(place) with a defined `place`,
  // own_bytes() returns 0, even if the value was not moved: operations then read only `place`.
  size_t own_bytes() const;
  // Returns a number to which each call of MutableValue() or BeginUpdate() adds 1. Each move of the value or
  // its copy by PlaceValue or PlaceForwardValue also adds 1. Backward compares this number with its value in
  // the forward pass, to detect that a parameter's value has changed since then.
  uint64_t version() const { return version_; }
  // Returns the tensor that operations read: the copy in bf16 if the parameter has one, else the value.
  const Tensor& ForwardValue() const;

  // The two tensors of this parameter that an optimizer writes: value(), and the parameter's own copy in
  // bf16. After PlaceForwardValue(place), `copy` is still in the parameter's own memory, not in `place`. If
  // the parameter has no copy in bf16, `copy` is an undefined Tensor.
  struct Update {
    const Tensor& value;
    const Tensor& copy;
  };
  Update BeginUpdate() {
    copy_is_fresh_ = true;
    ++version_;
    return {value(), copy_};
  }

  // Returns the tensor for the parameter's gradient. If PlaceGrad has not set the gradient's memory, the
  // first call of grad() allocates this memory, without initialising the elements.
  const Tensor& grad();
  // Makes `place` the gradient's memory, usually a view into a communication buffer; no elements are copied.
  // If `place` is undefined, the next grad() allocates memory. Throws InvalidInput if the shape, dtype or
  // device of `place` differs from the value's.
  void PlaceGrad(Tensor place);

  // Returns whether grad() holds a gradient. If true, the next Backward adds to this gradient; if false, it
  // overwrites grad().
  bool has_grad() const { return has_grad_; }
  // Declares that grad() holds no gradient. Call ResetGrad before the first Backward of each step, so that
  // Backward overwrites the previous step's gradient.
  void ResetGrad() {
    has_grad_ = false;
    any_row_ = false;
    touched_rows_.clear();
  }
  // Declares that a gradient has been written or added to grad(). If `rows` (i32 indices of rows) are given,
  // what was written or added is zero in all other rows.
  void MarkGrad(const Tensor& rows = {}) {
    has_grad_ = true;
    if (rows.defined()) touched_rows_.push_back(rows);
    any_row_ |= !rows.defined();
  }
  // Declares that grad() has been filled with zeros. The next Backward then adds to these zeros, and does not
  // overwrite grad().
  void MarkZeroGrad() {
    ResetGrad();
    has_grad_ = true;
  }
  // If has_grad() is true, returns the indices of the rows of grad() that may be nonzero, as i32 tensors,
  // possibly with repetitions. Returns null if all rows may be nonzero.
  const std::vector<Tensor>* touched_rows() const { return any_row_ ? nullptr : &touched_rows_; }

  // Excludes the parameter from training: operations use it as a constant, and optimizers and strategies skip
  // it in their lists of parameters. Call Freeze before you make an optimizer or a strategy with the
  // parameter.
  void Freeze() { frozen_ = true; }
  bool frozen() const { return frozen_; }
  // Declares that the parameter has one row for each token or class, like an embedding. The Muon optimizer
  // updates such a parameter by AdamW, and not as a matrix.
  void SetTable() { is_table_ = true; }
  bool is_table() const { return is_table_; }

 private:
  void CheckPlace(const char* what, const Tensor& place, DType dtype) const;
  void MoveTo(Tensor place, Tensor* from);

  const std::string name_;
  const Tensor value_;  // the value, if place_ is undefined
  Tensor place_;
  Tensor copy_;  // the copy, if copy_place_ is undefined
  Tensor copy_place_;
  ReadHook on_read_;
  mutable bool copy_is_fresh_ = false;
  uint64_t version_ = 0;
  Tensor grad_;
  bool has_grad_ = false;
  bool any_row_ = false;
  std::vector<Tensor> touched_rows_;
  bool frozen_ = false;
  bool is_table_ = false;
};

// Returns the parameters of `params` that are not frozen (Parameter::Freeze), in the same order. Throws
// InvalidInput if `params` has a parameter twice; the message names this parameter.
std::vector<Parameter*> Trained(std::span<Parameter* const> params);

}  // namespace gradsync::model
