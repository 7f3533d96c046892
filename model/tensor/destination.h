#pragma once

namespace gradsync::model {

// Tells an operation where to write a result, such as a gradient, and whether to overwrite the old numbers or
// to add the result to them. Data is the type Tensor, or, for kernels, a pointer to a tensor's elements. For
// a kernel with several results, if `data` is an undefined tensor or a null pointer, the kernel does not
// write the result of this Destination.
template <class Data>
struct Destination {
  Data data = {};
  bool accumulate = false;  // if true, add to the data; if false, overwrite the data

  // Converts a Destination<Tensor> to the Destination<T*> that a kernel takes. An undefined tensor becomes a
  // null pointer. Throws InvalidInput if T is not the tensor's dtype.
  template <class T>
  operator Destination<T*>() const {  // NOLINT(google-explicit-constructor)
    if (!data.defined()) return {};
    return {.data = data.template data<T>(), .accumulate = accumulate};
  }
};

}  // namespace gradsync::model
