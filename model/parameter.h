#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/tensor/tensor.h"

namespace gradsync::model {

// A trainable tensor with a name, and a gradient with the shape and dtype of the tensor.
//
// If the parameter has a copy in bf16, the value and its gradient are f32, also for optimizers and
// collectives. Only operations read the copy, which is the rounded value. The copy is stale after each
// MutableValue(), and while other handles to its own storage exist, because their owners may write. Then the
// next ForwardValue() casts it again, which needs a pass over memory. An optimizer avoids this pass by
// writing value and copy together (BeginUpdate()). Call MutableValue() before each write: writes through
// value(), or through a pointer from before the last ForwardValue(), are not noticed.
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

  // Returns the value for reading.
  const Tensor& value() const { return place_.defined() ? place_ : value_; }
  // Returns the value for writing.
  const Tensor& MutableValue() {
    copy_is_fresh_ = false;
    ++version_;
    return value();
  }
  // From now on the value is in `place`. If `place` is undefined, the value is again in the parameter's own
  // memory, whose contents have not changed. Code that writes to `place` through another handle must also
  // call MutableValue(). Throws InvalidInput if shape, dtype or device differ.
  void PlaceValue(Tensor place);
  // Like PlaceValue for the tensor that operations read, of ForwardValue()'s shape and dtype. If this tensor
  // is the copy, the value does not move, and the code that fills `place` must round the value, because
  // ForwardValue() no longer does it.
  void PlaceForwardValue(Tensor place);
  // Sets a function that is called before an operation of a forward pass reads the parameter, and in every
  // ForwardValue(). An empty `on_read` removes the function. The function may change placed memory.
  void SetOnRead(ReadHook on_read) { on_read_ = std::move(on_read); }
  // Undoes PlaceValue, PlaceForwardValue and SetOnRead.
  void TakeBack();
  bool has_copy() const { return copy_.defined(); }
  // Returns the number of bytes in use of the parameter's own memory for value and copy. Placed memory does
  // not count.
  size_t own_bytes() const;
  // Counts the calls of MutableValue() and BeginUpdate(). Backward rejects a graph that was recorded at
  // another version.
  uint64_t version() const { return version_; }
  // Returns the tensor that operations read: the copy if there is one, cast again if it is stale; else the
  // value.
  const Tensor& ForwardValue() const;

  // The tensors for a caller that writes both the value and the copy (the rounded value). `copy` is undefined
  // if there is no copy.
  struct Update {
    const Tensor& value;
    const Tensor& copy;
  };
  Update BeginUpdate() {
    copy_is_fresh_ = true;
    ++version_;
    return {value(), copy_};
  }

  // Returns the gradient's memory, which Backward writes. Allocated at the first call, unless PlaceGrad came
  // before.
  const Tensor& grad();
  // Makes `place` the gradient's memory, usually a view into a larger buffer. If `place` is undefined, grad()
  // allocates new memory. Contents and has_grad() do not change. Throws InvalidInput if shape, dtype or
  // device differ from the value's.
  void PlaceGrad(Tensor place);

  // Returns whether grad() holds a gradient. If true, the next Backward adds to the gradient, else it
  // overwrites the gradient.
  bool has_grad() const { return has_grad_; }
  // Discards the gradient without touching memory. Call it before each step's first Backward.
  void ResetGrad() {
    has_grad_ = false;
    any_row_ = false;
    touched_rows_.clear();
  }
  // Declares that grad() has been filled, or added to; if `rows` (i32 ids) are given, only in these rows.
  void MarkGrad(const Tensor& rows = {}) {
    has_grad_ = true;
    if (rows.defined()) touched_rows_.push_back(rows);
    any_row_ |= !rows.defined();
  }
  // Declares that grad() has been filled with zeros, so that the next Backward adds to the zeros.
  void MarkZeroGrad() {
    ResetGrad();
    has_grad_ = true;
  }
  // Returns the rows of grad(), of shape (rows, ...), that may be nonzero: i32 ids, possibly repeated, in one
  // tensor for each operation that contributed. Returns null if one operation did not pass its rows.
  const std::vector<Tensor>* touched_rows() const { return any_row_ ? nullptr : &touched_rows_; }

  // Excludes the parameter from training: operations use it as a constant. Call this before an optimizer or a
  // strategy is made. Optimizers, strategies and Backward leave out frozen parameters of their lists.
  void Freeze() { frozen_ = true; }
  bool frozen() const { return frozen_; }
  // A table has one row for each token or class: an embedding, or the output layer. Muon, which updates whole
  // matrices, updates a table by AdamW.
  void SetTable() { is_table_ = true; }
  bool is_table() const { return is_table_; }

 private:
  void CheckPlace(const char* what, const Tensor& place, DType dtype) const;
  void MoveTo(Tensor place, Tensor* from);

  const std::string name_;
  const Tensor value_;  // the value, unless place_ is defined
  Tensor place_;
  Tensor copy_;  // the copy, unless copy_place_ is defined
  Tensor copy_place_;
  ReadHook on_read_;
  mutable bool copy_is_fresh_ = false;
  uint64_t version_ = 0;
  Tensor grad_;
  bool has_grad_ = false;
  bool any_row_ = false;  // true if any row may be nonzero
  std::vector<Tensor> touched_rows_;
  bool frozen_ = false;
  bool is_table_ = false;
};

// Returns the parameters of `params` that are not frozen, in their order. Throws InvalidInput, which names
// the parameter, if a parameter is listed twice.
std::vector<Parameter*> Trained(std::span<Parameter* const> params);

}  // namespace gradsync::model
