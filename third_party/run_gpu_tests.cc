#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "third_party/gpu_test_main.h"

int RunGpuTests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int expected = 1;
  for (int i = 1; i < argc; ++i) std::sscanf(argv[i], "--gpus=%d", &expected);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  int found = 0;
  const cudaError_t status = cudaGetDeviceCount(&found);
  if (status != cudaSuccess || found == 0) {
    std::fprintf(stderr,
                 "no GPU that CUDA can use here (%s): this test, like all of --config=gpu, needs one\n",
                 status == cudaSuccess ? "it counts 0" : cudaGetErrorString(status));
    return 1;
  }
  if (found < expected) {
    std::printf("[  SKIPPED ] needs %d GPUs, this machine has %d\n", expected, found);
    return 0;
  }
  return RUN_ALL_TESTS();
}
