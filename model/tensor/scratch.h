#pragma once

#include <cstddef>
#include <cstdint>

#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// Scratch is temporary memory for a kernel: the constructor allocates `numel` elements from the device's
// CachingAllocator, and the destructor frees them.
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

// Returns the row stride, in elements, for a matrix of n columns: n rounded up to an odd number of cache
// lines of 64 bytes. With a stride of a multiple of 4 KiB, the elements of a column would evict each other
// from the cache.
template <class T>
constexpr int64_t PaddedStride(int64_t n) {
  constexpr int64_t kLineNumel = 64 / sizeof(T);
  return ((n + kLineNumel - 1) / kLineNumel | 1) * kLineNumel;
}

}  // namespace gradsync::model::kernels
