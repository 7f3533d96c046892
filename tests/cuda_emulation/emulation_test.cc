// That the emulation computes what CUDA does is shown by the suites that run on it. Here: that it shows the
// mistakes that it is made for.

#include <cublasLt.h>
#include <cuda_launch.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace {

constexpr int kThreads = 256;

class EmulationTest : public testing::Test {
 protected:
  EmulationTest() { stream_ = MakeStream(); }
  ~EmulationTest() override { cudaStreamDestroy(stream_); }

  static cudaStream_t MakeStream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
    return stream;
  }

  template <class T>
  static T* Allocate(size_t numel) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, numel * sizeof(T)), cudaSuccess);
    return static_cast<T*>(memory);
  }

  template <class... Params, class... Args>
  void Run(const char* name, void (*kernel)(Params...), int64_t blocks, size_t shared_bytes,
           const Args&... args) {
    ASSERT_EQ(LaunchKernel(name, kernel, blocks, kThreads, shared_bytes, stream_, args...), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  template <class T>
  std::vector<T> Read(const T* memory, size_t numel) {
    std::vector<T> values(numel);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), memory, numel * sizeof(T), cudaMemcpyDefault, stream_),
              cudaSuccess);
    return values;
  }

  cudaStream_t stream_ = nullptr;
};

// Each thread writes its number and reads that of the last thread minus its own.
__global__ void Reverse(bool with_barrier, int* out) {
  int* const shared = DynamicShared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_F(EmulationTest, AMissingBarrierShows) {
  int* const out = Allocate<int>(2 * kThreads);
  std::vector<int> reversed(2 * kThreads);
  for (int i = 0; i < 2 * kThreads; ++i) reversed[static_cast<size_t>(i)] = kThreads - 1 - i % kThreads;
  Run("Reverse", Reverse, 2, kThreads * sizeof(int), true, out);
  EXPECT_EQ(Read(out, 2 * kThreads), reversed);
  Run("Reverse", Reverse, 2, kThreads * sizeof(int), false, out);
  EXPECT_NE(Read(out, 2 * kThreads), reversed);
}

// Sums of 256 ones by shuffles and shared memory, several times over; without the second barrier a warp that
// is ahead spoils what others read.
__global__ void SumRepeatedly(bool with_both_barriers, int* wrong) {
  __shared__ int of_warps[kThreads / 32];
  for (int round = 1; round <= 20; ++round) {
    int sum = round;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (with_both_barriers) __syncthreads();
    of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (const int of_warp : of_warps) sum += of_warp;
    if (sum != kThreads * round) wrong[threadIdx.x] = 1;
  }
}

TEST_F(EmulationTest, AWarpGetsAheadOfOthers) {
  for (const bool correct : {true, false}) {
    int* const wrong = Allocate<int>(kThreads);
    ASSERT_EQ(cudaMemsetAsync(wrong, 0, kThreads * sizeof(int), stream_), cudaSuccess);
    Run("SumRepeatedly", SumRepeatedly, 1, 0, correct, wrong);
    EXPECT_EQ(Read(wrong, kThreads) == std::vector<int>(kThreads), correct);
  }
}

__global__ void CopyShared(float* out) { out[threadIdx.x] = DynamicShared<float>()[threadIdx.x]; }

TEST_F(EmulationTest, NewMemoryIsNotANumber) {
  float* const out = Allocate<float>(kThreads);
  for (const float value : Read(out, kThreads)) EXPECT_TRUE(std::isnan(value));
  Run("CopyShared", CopyShared, 1, kThreads * sizeof(float), out);
  for (const float value : Read(out, kThreads)) EXPECT_TRUE(std::isnan(value));
}

__global__ void BarrierInBranch() {
  if (threadIdx.x < 40) __syncthreads();
  if (threadIdx.x >= 40) __syncthreads();
}

__global__ void WarpWithoutAllLanes() {
  if (threadIdx.x == 3) __syncthreads();
  __syncwarp();
  __syncthreads();
}

__global__ void Write(int* out, int64_t index) {
  if (threadIdx.x == 7) out[index] = 1;
}

using EmulationDeathTest = EmulationTest;

TEST_F(EmulationDeathTest, MisuseNamesTheKernel) {
  EXPECT_DEATH(Run("Branches", BarrierInBranch, 1, 0),
               "emulated CUDA: kernel Branches, block 0, thread [0-9]+: waits at .*emulation_test.cc:[0-9]+, "
               "but thread [0-9]+ at .*emulation_test.cc:[0-9]+");
  EXPECT_DEATH(
      Run("Diverges", WarpWithoutAllLanes, 1, 0),
      "kernel Diverges, block 0, thread [0-9]+: waits for its warp at .*, which waits for the block");
}

TEST_F(EmulationDeathTest, MemoryIsClosedAroundBlocksToTheHostAndWhenFreed) {
  int* const memory = Allocate<int>(64);
  Run("Writes", Write, 1, 0, memory, 63);
  EXPECT_EQ(Read(memory + 63, 1), std::vector<int>{1});
  EXPECT_DEATH(Run("Writes", Write, 1, 0, memory, 64),
               "kernel Writes, block 0, thread 7: touches device memory beyond a block");
  EXPECT_DEATH(std::printf("%d", *memory), "the host: touches device memory");
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_DEATH(Run("Writes", Write, 1, 0, memory, 0), "thread 7: touches device memory");
}

TEST_F(EmulationTest, LaunchesThatCannotBeAreRefused) {
  const auto launch = [&](int64_t blocks, int threads, size_t shared_bytes) {
    return LaunchKernel("CopyShared", CopyShared, blocks, threads, shared_bytes, stream_,
                        static_cast<float*>(nullptr));
  };
  EXPECT_EQ(launch(1, 1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(0, 32, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch((int64_t{1} << 32) + 1, 32, 0), cudaErrorInvalidConfiguration);  // not 1
  EXPECT_EQ(launch(1, 32, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(launch(1, 32, 0), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

// What no event orders has not happened yet.
TEST_F(EmulationTest, AMissingWaitForAnEventShows) {
  cudaEvent_t zeroed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&zeroed, cudaEventDisableTiming), cudaSuccess);
  for (const bool correct : {true, false}) {
    int* const memory = Allocate<int>(1);
    const cudaStream_t other = MakeStream();
    ASSERT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), other), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(zeroed, other), cudaSuccess);
    if (correct) {
      ASSERT_EQ(cudaStreamWaitEvent(stream_, zeroed, 0), cudaSuccess);
    }
    EXPECT_EQ(Read(memory, 1)[0] == 0, correct);
    ASSERT_EQ(cudaStreamDestroy(other), cudaSuccess);
  }
  EXPECT_EQ(cudaEventQuery(zeroed), cudaErrorNotReady);
  while (cudaEventQuery(zeroed) == cudaErrorNotReady) {
  }
  EXPECT_EQ(cudaEventQuery(zeroed), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(zeroed), cudaSuccess);
}

// Whoever tells cuBLASLt nothing of alignment promises 256 bytes.
TEST_F(EmulationTest, ProductsHoldTheCallerToItsPromises) {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 1), CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(nullptr, operation, layout, layout, layout, layout, preference, 1,
                                           &found, &count),
            CUBLAS_STATUS_SUCCESS);
  float* const memory = Allocate<float>(64);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 64 * sizeof(float), stream_), cudaSuccess);
  const float one = 1, zero = 0;
  for (const int offset : {0, 1}) {
    EXPECT_EQ(cublasLtMatmul(nullptr, operation, &one, memory, layout, memory, layout, &zero, memory + offset,
                             layout, memory + offset, layout, &found.algo, memory, 0, stream_),
              offset == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation);
}

}  // namespace
