#pragma once

namespace gradsync::model {

// The destination of a gradient (or another result), and whether to add to it. Data is a Tensor, or, for
// kernels, the pointer to its elements. If it is an undefined tensor or null, the result is not needed, and
// need not be computed.
template <class Data>
struct Destination {
  Data data = {};
  bool accumulate = false;  // if true, add to the data; else overwrite the data without reading them

  // Converts a tensor's destination to a kernel's destination. Throws InvalidInput if T is not the dtype.
  template <class T>
  operator Destination<T*>() const {  // NOLINT(google-explicit-constructor)
    if (!data.defined()) return {};
    return {.data = data.template data<T>(), .accumulate = accumulate};
  }
};

}  // namespace gradsync::model
