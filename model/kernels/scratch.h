#ifndef GRADSYNC_MODEL_KERNELS_SCRATCH_H_
#define GRADSYNC_MODEL_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "model/device.h"

namespace gradsync::model::kernels {

// Room for `numel` elements on the device while a kernel runs. From the device's allocator, so that a step
// that repeats takes nothing from the system.
template <class T>
class Scratch {
 public:
  Scratch(Device& device, int64_t numel)
      : device_(device),
        data_(static_cast<T*>(device.allocator().Allocate(static_cast<size_t>(numel) * sizeof(T)))) {}
  ~Scratch() { device_.allocator().Free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return data_; }

 private:
  Device& device_;
  T* const data_;
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_SCRATCH_H_
