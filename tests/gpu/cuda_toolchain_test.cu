// Tests the whole way from a .cu file to a result: code of nvcc links with other code, loads on the GPU of
// this machine and computes.

#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace {

// Computes c[i] = a[i] + b[i] for i < numel.
__global__ void Add(const float* a, const float* b, float* c, int numel) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < numel) c[i] = a[i] + b[i];
}

// Returns the reason why no kernel can run, or an empty string.
std::string ReasonToSkip() {
  int device_count = 0;
  const cudaError_t status = cudaGetDeviceCount(&device_count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return device_count == 0 ? "no CUDA device" : "";
}

TEST(CudaToolchainTest, KernelAddsVectors) {
  const std::string reason = ReasonToSkip();
  if (!reason.empty()) GTEST_SKIP() << reason;

  constexpr int kNumel = 100'003;  // not a multiple of the block size
  constexpr int kBlock = 256;
  std::vector<float> a(kNumel), b(kNumel), c(kNumel, -1.0f);
  for (int i = 0; i < kNumel; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  constexpr size_t kBytes = kNumel * sizeof(float);
  float* device_memory = nullptr;
  ASSERT_EQ(cudaMalloc(&device_memory, 3 * kBytes), cudaSuccess);
  float* const device_a = device_memory;
  float* const device_b = device_a + kNumel;
  float* const device_c = device_b + kNumel;
  ASSERT_EQ(cudaMemcpy(device_a, a.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_b, b.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  Add<<<(kNumel + kBlock - 1) / kBlock, kBlock>>>(device_a, device_b, device_c, kNumel);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess) << "no code for this GPU's architecture?";
  ASSERT_EQ(cudaMemcpy(c.data(), device_c, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(device_memory), cudaSuccess);
  for (int i = 0; i < kNumel; ++i) ASSERT_EQ(c[i], static_cast<float>(3 * i)) << "element " << i;
}

}  // namespace
