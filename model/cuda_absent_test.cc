// What a program says when it asks for a GPU that is not there. Runs on every machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/cuda_device.h"
#include "model/error.h"

namespace gradsync::model {
namespace {

std::string Refusal(int ordinal) {
  try {
    CudaDevice device(ordinal);
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing";
}

TEST(CudaDevice, OneLineForAGpuThatIsNotThere) {
  const int count = CudaDeviceCount();
  ASSERT_GE(count, 0);
  for (const int ordinal : {count, count + 1000, -1}) {
    const std::string refusal = Refusal(ordinal);
    EXPECT_THAT(refusal, testing::StartsWith("CUDA device " + std::to_string(ordinal) + ": "));
    EXPECT_THAT(refusal, testing::Not(testing::HasSubstr("\n")));
    EXPECT_THAT(refusal, testing::AnyOf(testing::HasSubstr("built without CUDA"),
                                        testing::HasSubstr("no GPU that CUDA can use here ("),
                                        testing::HasSubstr("this machine has ")));
  }
}

TEST(CudaDevice, OutOfMemoryKeepsItsMessageWhenCopied) {
  const CudaOutOfMemory error("asked for 1 byte");
  try {
    throw error;  // copies
  } catch (const std::bad_alloc& caught) {
    EXPECT_STREQ(caught.what(), "asked for 1 byte");
  }
}

}  // namespace
}  // namespace gradsync::model
