#ifndef GRADSYNC_MODEL_DESTINATION_H_
#define GRADSYNC_MODEL_DESTINATION_H_

namespace gradsync::model {

// Where a gradient (or another result) goes, and whether it is added to what is there. Data is a Tensor, or,
// for kernels, the pointer to its elements. An undefined tensor or null: the result is not needed, and need
// not be computed.
template <class Data>
struct Destination {
  Data data = {};
  bool accumulate = false;  // add, instead of overwriting unread

  // A tensor's destination as kernels take it. Throws InvalidInput if T is not the dtype.
  template <class T>
  operator Destination<T*>() const {  // NOLINT(google-explicit-constructor)
    if (!data.defined()) return {};
    return {.data = data.template data<T>(), .accumulate = accumulate};
  }
};

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_DESTINATION_H_
