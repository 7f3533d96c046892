#include "bench/training/image_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace gradsync::bench {
namespace {

using model::Tensor;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Lt;

std::pair<std::vector<float>, std::vector<float>> BatchOf(uint64_t seed, int rank, int64_t step) {
  const Tensor inputs = Tensor::Empty(model::CpuDevice(), {2, 3, 5, 5}, model::DType::kF32);
  const Tensor targets = Tensor::Empty(model::CpuDevice(), {2, 7}, model::DType::kF32);
  UniformImages(seed)->Fill(rank, step, inputs, targets);
  return {inputs.ToVector<float>(), targets.ToVector<float>()};
}

TEST(UniformImagesTest, FillsBothFromZeroToOne) {
  const auto [inputs, targets] = BatchOf(0, 0, 0);
  EXPECT_THAT(inputs, Each(AllOf(Ge(0.0F), Lt(1.0F))));
  EXPECT_THAT(targets, Each(AllOf(Ge(0.0F), Lt(1.0F))));
  EXPECT_NE(std::vector<float>(inputs.begin(), inputs.begin() + 14), targets);
}

TEST(UniformImagesTest, ABatchIsAFunctionOfSeedRankAndStep) {
  EXPECT_EQ(BatchOf(1, 2, 3), BatchOf(1, 2, 3));
  EXPECT_NE(BatchOf(1, 2, 3), BatchOf(2, 2, 3));
  EXPECT_NE(BatchOf(1, 2, 3), BatchOf(1, 3, 3));
  EXPECT_NE(BatchOf(1, 2, 3), BatchOf(1, 2, 4));
}

}  // namespace
}  // namespace gradsync::bench
