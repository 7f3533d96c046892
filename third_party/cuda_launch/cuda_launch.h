#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// The two things in a .cu file that are no C++: how a kernel is launched, and how it gets dynamic shared
// memory. For .cu files only. tests/cuda_emulation has the same for a C++ compiler.

// Puts a kernel into the stream, its arguments converted to its parameters' types. Returns why that was
// refused, or an error of earlier work; cudaErrorInvalidConfiguration if CUDA has no grid of so many blocks,
// 1 to 2^31 - 1. `name` is for messages of the emulation.
template <class... Params, class... Args>
cudaError_t LaunchKernel(const char* /*name*/, void (*kernel)(Params...), int64_t blocks, int threads,
                         size_t shared_bytes, cudaStream_t stream, const Args&... args) {
  if (blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared_bytes, stream>>>(
      static_cast<Params>(args)...);
  return cudaGetLastError();
}

// The block's dynamic shared memory, aligned to 128 bytes.
template <class T>
__device__ T* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}
