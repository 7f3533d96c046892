// Takes the place of every GPU test where the CUDA toolkit, or a library of it that the test needs, is
// missing.

#include "gtest/gtest.h"

TEST(CudaTest, IsBuiltWithoutCuda) { GTEST_SKIP() << "built without CUDA"; }
