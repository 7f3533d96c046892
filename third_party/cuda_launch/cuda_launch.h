#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// The two parts of a .cu file that are not C++: the launch of a kernel, and dynamic shared memory. For .cu
// files only. tests/cuda_emulation defines these functions for a C++ compiler.

// Puts a kernel into the stream, with arguments converted to the types of its parameters. Returns the error
// of the launch, or an error of earlier work; cudaErrorInvalidConfiguration unless the number of blocks is
// from 1 to 2^31 - 1. The emulation prints `name` in messages.
template <class... Params, class... Args>
cudaError_t LaunchKernel(const char* /*name*/, void (*kernel)(Params...), int64_t blocks, int threads,
                         size_t shared_bytes, cudaStream_t stream, const Args&... args) {
  if (blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), shared_bytes, stream>>>(
      static_cast<Params>(args)...);
  return cudaGetLastError();
}

// Returns the block's dynamic shared memory, aligned to 128 bytes.
template <class T>
__device__ T* DynamicShared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}
