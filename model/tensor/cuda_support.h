#pragma once

#include <cuda_bf16.h>
#include <cuda_launch.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "model/tensor/cuda_device.h"
#include "model/tensor/destination.h"
#include "model/tensor/dtype.h"

// Functions that CUDA kernels share: they launch kernels, load and store elements, and combine the values of
// threads. Only .cu files can include this header.
namespace gradsync::model::kernels {

// Casts `device` to CudaDevice without a check: kernels' OnCuda functions get only CUDA devices.
inline const CudaDevice& Gpu(const Device& device) { return static_cast<const CudaDevice&>(device); }

// The number of threads per CUDA block in LaunchLoop, LaunchPackLoop, LaunchRows and LaunchBlocks.
constexpr int kThreads = 256;

// Launches a kernel on the device's compute stream. Does nothing if `blocks` is 0. Throws CudaError for 2^31
// blocks or more, and if CUDA rejects the launch or reports that earlier work on the GPU failed.
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
  if (status != cudaSuccess) ThrowCudaError(static_cast<int>(status), name, __FILE__, __LINE__);
}

// GridIndex and GridStride are for grid-stride loops: each thread of the grid handles the elements
// GridIndex(), GridIndex() + GridStride(), GridIndex() + 2 * GridStride() and so on.
__device__ inline int64_t GridIndex() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t GridStride() { return int64_t{gridDim.x} * blockDim.x; }

inline int64_t CeilDiv(int64_t n, int64_t each) { return (n + each - 1) / each; }

// Returns the number of blocks of kThreads threads for a grid-stride loop over n elements: enough for one
// thread per element, but at most 16 blocks per multiprocessor.
inline int64_t LoopBlocks(const Device& device, int64_t n) {
  return std::min(CeilDiv(n, kThreads), int64_t{16} * Gpu(device).num_multiprocessors());
}

template <class Fn>
__global__ void LoopKernel(int64_t n, Fn fn) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) fn(i);
}

// Runs fn(i), a __device__ lambda, on the GPU once for each i from 0 to n - 1.
template <class Fn>
void LaunchLoop(const Device& device, const char* name, int64_t n, const Fn& fn) {
  Launch(device, name, LoopKernel<Fn>, LoopBlocks(device, n), kThreads, 0, n, fn);
}

// A pack is a group of adjacent elements that a GPU thread reads or writes together: 16 bytes in one access
// or, for f64, 32 bytes in two accesses. An array of packs must begin at an address that is a multiple of 16.
// With accesses of fewer than 16 bytes, GPU memory may not reach its full speed.
constexpr size_t kPackBytes = 16;
template <class T>
constexpr int kPackNumel = sizeof(T) == 2 ? 8 : 4;

// Returns whether each argument is null or an address that is a multiple of 16 bytes.
template <class... Ts>
bool ArePacked(const Ts*... arrays) {
  return ((reinterpret_cast<uintptr_t>(arrays) % kPackBytes == 0) && ...);
}

template <int N>
using Numel = std::integral_constant<int, N>;

template <int N, class Fn>
__global__ void PackLoopKernel(int64_t n, Fn fn) {
  const int64_t packed = n / N * N;
  for (int64_t i = GridIndex() * N; i < packed; i += GridStride() * N) fn(Numel<N>{}, i);
  for (int64_t i = packed + GridIndex(); i < n; i += GridStride()) fn(Numel<1>{}, i);
}

// Runs fn(numel, i), a __device__ lambda, on the GPU so that the calls together cover all n elements. Each
// call must handle the `numel` elements from i on; numel is a compile-time constant. If `packed` is true,
// numel is kPackNumel<T> (the elements of a pack), but 1 for the last elements if they do not fill a pack. If
// `packed` is false, numel is 1: each call handles only element i.
template <class T, class Fn>
void LaunchPackLoop(const Device& device, const char* name, int64_t n, bool packed, const Fn& fn) {
  const auto kernel = packed ? PackLoopKernel<kPackNumel<T>, Fn> : PackLoopKernel<1, Fn>;
  const int64_t blocks = LoopBlocks(device, CeilDiv(n, packed ? kPackNumel<T> : 1));
  Launch(device, name, kernel, blocks, kThreads, 0, n, fn);
}

constexpr int kWarp = 32;

template <int N, class Fn>
__global__ void RowsKernel(int64_t rows, Fn fn) {
  const int64_t row = GridIndex() / kWarp;
  if (row < rows) fn(Numel<N>{}, row, static_cast<int64_t>(threadIdx.x % kWarp));
}

// Runs fn(numel, row, lane), a __device__ lambda, on the GPU in all 32 threads of one warp per row; lane is
// the thread's number in its warp. numel, a compile-time constant, tells fn how many adjacent elements a
// thread may read or write together: kPackNumel<T> if `packed` is true, else 1.
template <class T, class Fn>
void LaunchRows(const Device& device, const char* name, int64_t rows, bool packed, const Fn& fn) {
  const auto kernel = packed ? RowsKernel<kPackNumel<T>, Fn> : RowsKernel<1, Fn>;
  Launch(device, name, kernel, CeilDiv(rows, kThreads / kWarp), kThreads, 0, rows, fn);
}

template <class Fn>
__global__ void BlocksKernel(Fn fn) {
  fn(int64_t{blockIdx.x});
}

// Runs fn(block), a __device__ lambda, on the GPU in all kThreads threads of each of `blocks` CUDA blocks.
// The argument `block` is the number of the thread's CUDA block, from 0 to blocks - 1.
template <class Fn>
void LaunchBlocks(const Device& device, const char* name, int64_t blocks, const Fn& fn) {
  Launch(device, name, BlocksKernel<Fn>, blocks, kThreads, 0, fn);
}

// Returns a / b. For float, Quotient is faster than `/`, but less accurate. The error is at most 2 ulp if |b|
// is from 2^-126 to 2^126. For larger |b| and finite a, the result is 0.
__device__ inline float Quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double Quotient(double a, double b) { return a / b; }

// Widen converts a bf16 number to f32, in which kernels compute. Narrow rounds an f32 result to the nearest
// bf16 number. For any other type T, Widen and Narrow return the number unchanged.
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

template <class T>
__device__ inline void Store(T* out, Wide<T> value, bool accumulate) {
  *out = Narrow<T>(accumulate ? Widen(*out) + value : value);
}

// A Chunk has the elements of type T that one memory access moves when Load or Store moves N adjacent
// elements: 16 bytes of elements if N is at least 4, else one element.
template <int N, class T>
struct alignas(N < 4 ? sizeof(T) : kPackBytes) Chunk {
  static constexpr int kNumel = N < 4 ? 1 : kPackBytes / sizeof(T);
  T at[kNumel];
};

template <int N, class T>
__device__ inline void Load(const T* from, Wide<T> (&to)[N]) {
  constexpr int kStep = Chunk<N, T>::kNumel;
  for (int first = 0; first < N; first += kStep) {
    const Chunk<N, T> chunk = *reinterpret_cast<const Chunk<N, T>*>(from + first);
    for (int i = 0; i < kStep; ++i) to[first + i] = Widen(chunk.at[i]);
  }
}

template <int N, class T>
__device__ inline void Store(T* out, const Wide<T> (&values)[N], bool accumulate) {
  constexpr int kStep = Chunk<N, T>::kNumel;
  Wide<T> before[N] = {};
  if (accumulate) Load(out, before);
  for (int first = 0; first < N; first += kStep) {
    Chunk<N, T> chunk;
    for (int i = 0; i < kStep; ++i) {
      const Wide<T> value = values[first + i];
      chunk.at[i] = Narrow<T>(accumulate ? before[first + i] + value : value);
    }
    *reinterpret_cast<Chunk<N, T>*>(out + first) = chunk;
  }
}

// Writes `value` (one number, or an array of adjacent numbers) to `out`, from element i on. If out.accumulate
// is true, adds `value` to the old elements instead. Does nothing if out.data is null.
template <class T, class Value>
__device__ inline void StoreIfWanted(const Destination<T*>& out, int64_t i, const Value& value) {
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

// Divides a warp into groups of kLanes adjacent threads; kLanes is a power of two. Combines the values of the
// threads of each group by `op`, and returns the result to all threads of the group. All 32 threads of a warp
// must call this function.
template <int kLanes, class T, class Op>
__device__ T CombineLanes(T value, Op op) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

// Combines the values of all threads of a block by `op`, always in the same order, and returns the result to
// all threads. `neutral` is the neutral element of `op`, such as 0 for a sum. All threads of the block must
// call this function; their number must be a multiple of 32, at most 1024.
template <class T, class Op>
__device__ T CombineBlock(T value, T neutral, Op op) {
  __shared__ T of_warps[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = CombineLanes<32>(value, op);
  __syncthreads();  // waits until the results of the previous call have been read
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  return CombineLanes<32>(lane < blockDim.x / 32 ? of_warps[lane] : neutral, op);
}

}  // namespace gradsync::model::kernels
