#pragma once

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

// The emulation of third_party/cuda_launch/cuda_launch.h, which documents these functions.

template <class... Params, class... Args>
cudaError_t LaunchKernel(const char* name, void (*kernel)(Params...), int64_t blocks, int threads,
                         size_t shared_bytes, cudaStream_t stream, const Args&... args) {
  static_assert((std::is_trivially_copyable_v<Params> && ...));
  static_assert((sizeof(Params) + ... + 0) <= 4096, "arguments of a kernel");
  if (blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  return cuda_emulation::Launch(
      {.kernel = name,
       .blocks = static_cast<unsigned>(blocks),
       .threads = static_cast<unsigned>(threads),
       .shared_bytes = shared_bytes},
      reinterpret_cast<const void*>(kernel), stream,
      [kernel, params = std::tuple<Params...>(static_cast<Params>(args)...)] { std::apply(kernel, params); });
}

template <class T>
T* DynamicShared() {
  return reinterpret_cast<T*>(cuda_emulation::SharedMemory());
}
