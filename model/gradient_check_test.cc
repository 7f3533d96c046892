#include "model/gradient_check.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace gradsync::model {
namespace {

using testing::HasSubstr;

// x^2 with its gradient, into which a test builds a fault.
struct Fault {
  double factor = 2;         // of x, in the gradient
  bool adds_always = false;  // to whatever is in the place
  bool never_adds = false;   // overwrites an earlier contribution
};

Function Square(Fault fault) {
  return [fault](const std::vector<Var>& inputs) {
    const Tensor x = inputs[0].value();
    const Tensor y = x.Clone();
    for (int64_t i = 0; i < x.numel(); ++i) y.data<double>()[i] *= x.data<double>()[i];
    return Var::FromOp("square", y, {inputs[0]}, [x, fault](OpGradient& op) {
      op.Contribute(0, [&](const Destination<Tensor>& grad) {
        double* const dx = grad.data.data<double>();
        const bool add = (grad.accumulate || fault.adds_always) && !fault.never_adds;
        for (int64_t i = 0; i < x.numel(); ++i) {
          const double g = fault.factor * x.data<double>()[i] * op.output_grad().data<double>()[i];
          dx[i] = add ? dx[i] + g : g;
        }
      });
    });
  };
}

std::string Check(Fault fault) {
  const std::vector<double> values{0.5, -2, 1000};
  const Tensor x = Tensor::From<double>(CpuDevice(), {3, 1}, std::span<const double>(values));
  return CheckGradients(Square(fault), {x}).message();
}

TEST(GradientCheckTest, AcceptsARightGradient) { EXPECT_EQ(Check({}), ""); }

TEST(GradientCheckTest, FindsAWrongGradient) {
  EXPECT_THAT(Check({.factor = 2.0001}), HasSubstr("central differences give"));
}

TEST(GradientCheckTest, FindsAReadOfTheOldGradient) {
  EXPECT_THAT(Check({.adds_always = true}), HasSubstr("is nan"));
}

TEST(GradientCheckTest, FindsAContributionThatIsOverwritten) {
  EXPECT_THAT(Check({.never_adds = true}), HasSubstr("added to an equal one"));
}

}  // namespace
}  // namespace gradsync::model
