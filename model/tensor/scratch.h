#pragma once

#include <cstddef>
#include <cstdint>

#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// Memory for `numel` elements on the device while a kernel runs. The memory is from the device's allocator,
// so repeated steps request nothing from the system.
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

// Returns the row stride, in elements, of a matrix of n columns in scratch memory: an odd number of cache
// lines. Rows at multiples of 4 KiB would all be in one set of a first-level cache.
template <class T>
constexpr int64_t PaddedStride(int64_t n) {
  constexpr int64_t kLineNumel = 64 / sizeof(T);
  return ((n + kLineNumel - 1) / kLineNumel | 1) * kLineNumel;
}

}  // namespace gradsync::model::kernels
