// Takes the place of every GPU test where the CUDA toolkit, or a library of it that the test needs, is
// missing. It fails, because only --config=gpu runs it: whoever asks for GPU tests is not to read "passed".

#include "gtest/gtest.h"

TEST(CudaTest, IsBuiltWithoutCuda) {
  FAIL()
      << "built without CUDA: there was no toolkit in /usr/local/cuda (or in CUDA_HOME), no GPU (or "
         "CUDA_ARCHITECTURES=90, say), or not all that this test needs; Bazel says at the begin of a build "
         "what it found";
}
