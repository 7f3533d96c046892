#ifndef GRADSYNC_MODEL_KERNELS_TARGET_H_
#define GRADSYNC_MODEL_KERNELS_TARGET_H_

namespace gradsync::model::kernels {

// Where one of several results of a kernel goes. Null data: not wanted, and not computed.
template <class T>
struct Target {
  T* data = nullptr;
  bool accumulate = false;  // add to what is there, instead of overwriting it unread
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_TARGET_H_
