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

// Elements from one row to the next of a matrix of n columns in scratch: an odd number of cache lines. Rows
// that are a multiple of 4 KiB apart would all fall into one set of a first-level cache.
template <class T>
constexpr int64_t PaddedStride(int64_t n) {
  constexpr int64_t kLineNumel = 64 / sizeof(T);
  return ((n + kLineNumel - 1) / kLineNumel | 1) * kLineNumel;
}

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_SCRATCH_H_
