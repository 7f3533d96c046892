#include "ddp/lossy/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/base/error.h"
#include "model/tensor/tensor.h"

namespace gradsync::ddp {
namespace {

using model::Tensor;

constexpr int64_t kRows = 6, kColumns = 5;

class LowRankTest : public testing::Test {
 protected:
  // Memory of a new gradient holds what a gradient of an earlier test left there.
  LowRankTest() { param_.grad().Zero(); }

  static Tensor Zeros(int64_t numel) {
    return Tensor::Zeros(model::CpuDevice(), {numel}, model::DType::kF32);
  }

  model::Parameter param_{"p", Zeros(kRows* kColumns).View({kRows, kColumns})};
  const Tensor p_ = Zeros(kRows), q_ = Zeros(kColumns);
};

// The sum of the other ranks has it: this rank's own gradient is finite.
TEST_F(LowRankTest, ANanOfAnotherRankPassesOn) {
  LowRank gradient(param_, 1, 2, 0);
  gradient.PlaceP(p_, 0);
  gradient.PlaceQ(q_, 0);
  gradient.Reset();
  param_.grad().data<float>()[0] = 1;
  gradient.MakeP();
  p_.data<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  gradient.MakeQ();
  gradient.Finish();
  for (const float value : param_.grad().ToVector<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST_F(LowRankTest, ZerosMakeFiniteFactors) {
  LowRank gradient(param_, 1, 2, 0);
  gradient.PlaceP(p_, 0);
  gradient.PlaceQ(q_, 0);
  gradient.Reset();
  gradient.MakeP();
  gradient.MakeQ();
  gradient.Finish();
  EXPECT_EQ(param_.grad().ToVector<float>(), std::vector<float>(kRows * kColumns, 0));
}

// With a rank of 5 a unit vector beyond the last column would be needed.
TEST_F(LowRankTest, FactorsAreSmallerThanTheGradient) {
  EXPECT_THROW(LowRank(param_, 5, 0.5, 0), InvalidInput);
  EXPECT_TRUE(LowRank(param_, 3, 1, 0).is_whole());
  EXPECT_FALSE(LowRank(param_, 2, 1, 0).is_whole());
}

}  // namespace
}  // namespace gradsync::ddp
