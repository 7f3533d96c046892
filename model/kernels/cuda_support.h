#ifndef GRADSYNC_MODEL_KERNELS_CUDA_SUPPORT_H_
#define GRADSYNC_MODEL_KERNELS_CUDA_SUPPORT_H_

#include <cuda_bf16.h>
#include <cuda_launch.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "model/cuda_device.h"
#include "model/destination.h"
#include "model/dtype.h"

// What the kernels for CUDA share. For .cu files only.
namespace gradsync::model::kernels {

// The device as what it is: OnCuda is called with nothing else.
inline const CudaDevice& Gpu(const Device& device) { return static_cast<const CudaDevice&>(device); }

// Threads of a block, unless a kernel has reasons for another number.
constexpr int kThreads = 256;

// Puts a kernel into the device's compute stream. Nothing happens if there are no blocks. Throws CudaError,
// with the kernel's name, if the launch is refused (more blocks than a grid has, another configuration that
// cannot be, no code for this GPU) or if earlier work has failed.
template <class... Params, class... Args>
void Launch(const Device& device, const char* name, void (*kernel)(Params...), int64_t blocks, int threads,
            size_t shared_bytes, const Args&... args) {
  if (blocks == 0) return;
  constexpr int64_t kMaxBlocks = INT32_MAX;
  if (blocks > kMaxBlocks) {
    throw CudaError(
        Join("kernel ", name, ": a grid of ", blocks, " blocks, CUDA takes at most ", kMaxBlocks));
  }
  Gpu(device).MakeCurrent();
  const cudaError_t status =
      LaunchKernel(name, kernel, blocks, threads, shared_bytes, Gpu(device).compute_stream().get(), args...);
  if (status != cudaSuccess) {
    ThrowCudaError(static_cast<int>(status), name, __FILE__, __LINE__);
  }
}

// This thread's first element of a loop over the whole grid, and the step to its next.
__device__ inline int64_t GridIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t GridStride() { return int64_t{gridDim.x} * blockDim.x; }

// The blocks of a loop over n elements that strides by the grid: at most as many as fill the GPU twice.
inline int64_t LoopBlocks(const Device& device, int64_t n) {
  return std::min((n + kThreads - 1) / kThreads, int64_t{16} * Gpu(device).num_multiprocessors());
}

template <class Fn>
__global__ void LoopKernel(int64_t n, Fn fn) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) fn(i);
}

// Such a loop: calls fn(i), a __device__ lambda, for every i from 0 to n - 1.
template <class Fn>
void LaunchLoop(const Device& device, const char* name, int64_t n, const Fn& fn) {
  Launch(device, name, LoopKernel<Fn>, LoopBlocks(device, n), kThreads, 0, n, fn);
}

template <class Fn>
__global__ void BlocksKernel(Fn fn) {
  fn(int64_t{blockIdx.x});
}

// Calls fn(block), a __device__ lambda, in all threads of each of so many blocks.
template <class Fn>
void LaunchBlocks(const Device& device, const char* name, int64_t blocks, const Fn& fn) {
  Launch(device, name, BlocksKernel<Fn>, blocks, kThreads, 0, fn);
}

// A stored number as one to compute with, and back, rounded to nearest.
template <class T>
__device__ inline Wide<T> Widen(T x) {
  return x;
}
template <>
__device__ inline float Widen<BF16>(BF16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
template <class T>
__device__ inline T Narrow(Wide<T> x) {
  return x;
}
template <>
__device__ inline BF16 Narrow<BF16>(float x) {
  BF16 y;
  y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return y;
}

// *out = or += value.
template <class T>
__device__ inline void Store(T* out, Wide<T> value, bool accumulate) {
  *out = Narrow<T>(accumulate ? Widen(*out) + value : value);
}

template <class T>
__device__ inline void StoreIfWanted(const Destination<T*>& out, int64_t i, Wide<T> value) {
  if (out.data != nullptr) Store(out.data + i, value, out.accumulate);
}

struct SumOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct LargestOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Combines the values of groups of `kLanes` neighbouring threads; all of them get the result. All 32 threads
// of a warp take part.
template <int kLanes, class T, class Op>
__device__ T CombineLanes(T value, Op op) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// Combines the values of all threads of a one-dimensional block of full warps, always in the same order; all
// threads get the result. `neutral` changes nothing. All threads of the block take part.
template <class T, class Op>
__device__ T CombineBlock(T value, T neutral, Op op) {
  __shared__ T of_warps[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = CombineLanes<32>(value, op);
  __syncthreads();  // the results of the call before have been read
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  return CombineLanes<32>(lane < blockDim.x / 32 ? of_warps[lane] : neutral, op);
}

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_CUDA_SUPPORT_H_
