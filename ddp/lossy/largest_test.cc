#include "ddp/lossy/largest.h"

#include <gtest/gtest.h>

#include "model/parameter.h"
#include "model/tensor/tensor.h"

namespace gradsync::ddp {
namespace {

using model::Tensor;

// 7 % of 100 elements are 7, although 0.07 * 100 is above 7.
TEST(PlanMessageTest, RoundsUpOnlyWhatIsNoWholeNumber) {
  model::Parameter matrix("matrix", Tensor::Zeros(model::CpuDevice(), {10, 10}, model::DType::kF32));
  model::Parameter vector("vector", Tensor::Zeros(model::CpuDevice(), {3}, model::DType::kF32));
  for (const auto& [percent, count] : {std::pair(7.0, 7), {7.1, 8}, {0.5, 1}, {100.0, 100}}) {
    Bucket bucket = {.params = {&matrix, &vector}, .offsets = {0, 0}};
    const int indices = count < 100 ? count : 0;
    EXPECT_EQ(PlanMessage(percent, bucket), 4 * (count + 3 + indices)) << percent;
    EXPECT_EQ(bucket.numel, count + 3);
    EXPECT_EQ(bucket.offsets[1], count);
  }
}

}  // namespace
}  // namespace gradsync::ddp
