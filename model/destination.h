#pragma once

namespace gradsync::model {

// The destination of a gradient (or another result), and whether to add to it. Data is a Tensor, or, for
// kernels, the pointer to its elements. An undefined tensor or null: the result is not needed, and need not
// be computed.
template <class Data>
struct Destination {
  Data data = {};
  bool accumulate = false;  // add to the data; else overwrite it unread

  // Converts a tensor's destination to a kernel's. Throws InvalidInput if T is not the dtype.
  template <class T>
  operator Destination<T*>() const {  // NOLINT(google-explicit-constructor)
    if (!data.defined()) return {};
    return {.data = data.template data<T>(), .accumulate = accumulate};
  }
};

}  // namespace gradsync::model
