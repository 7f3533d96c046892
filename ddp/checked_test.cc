#include "ddp/checked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"
#include "model/base/test_errors.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;
using ::testing::HasSubstr;

// A world of one, and every strategy in turn.
class CheckedTest : public testing::TestWithParam<std::string> {
 protected:
  void Mark(size_t i) {
    Parameter& param = *model_.params()[i];
    param.grad().Zero();
    param.MarkGrad();
    strategy_->OnGradReady(param);
  }

  std::string Prefix(int step) const {
    return "strategy '" + GetParam() + "', step " + std::to_string(step) + ": ";
  }

  const std::vector<std::unique_ptr<comm::ProcessGroup>> groups_ = comm::MakeGroups("local", 1);
  const TestModel model_{{3, 4, 5}};
  const StrategyContext context_{.params = model_.params(), .group = *groups_[0], .options = {}};
  const std::unique_ptr<Strategy> strategy_ = MakeStrategy(GetParam(), context_);
};

INSTANTIATE_TEST_SUITE_P(AllStrategies, CheckedTest, testing::ValuesIn(StrategyNames()),
                         [](const auto& tested) { return tested.param; });

TEST_P(CheckedTest, AParameterThatWasNeverReadyIsNamed) {
  strategy_->BeginStep();
  for (const size_t i : {2u, 1u, 0u}) Mark(i);
  strategy_->Finish();
  strategy_->BeginStep();
  Mark(2);
  Mark(0);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { strategy_->Finish(); }),
            Prefix(1) + "the gradient of 'p1' was never ready, so that it was not sent");
}

// Others hear of a step's last pass alone, and may send while they do.
TEST_P(CheckedTest, EveryPassIsChecked) {
  if (!strategy_->needs_every_pass()) GTEST_SKIP() << "hears of one pass";
  strategy_->BeginStep();
  for (const size_t i : {2u, 1u, 0u}) Mark(i);
  strategy_->EndPass();
  Mark(2);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Mark(2); }),
            Prefix(0) + "the gradient of 'p2' is ready a second time");
  Mark(0);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { strategy_->EndPass(); }),
            Prefix(0) + "the gradient of 'p1' was never ready, so that it was not sent");
}

TEST_P(CheckedTest, AParameterThatIsReadyTwiceIsNamed) {
  strategy_->BeginStep();
  Mark(1);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Mark(1); }),
            Prefix(0) + "the gradient of 'p1' is ready a second time");
}

TEST_P(CheckedTest, AStrangersGradientIsNamed) {
  const TestModel other({1, 2, 3, 4});
  strategy_->BeginStep();
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { strategy_->OnGradReady(*other.params()[3]); }),
            Prefix(0) + "the gradient of 'p3' is ready, but the strategy was made without it");
}

TEST_P(CheckedTest, AStepBegins) {
  EXPECT_THAT(ErrorOf<std::logic_error>([&] { Mark(0); }),
              HasSubstr("'p0' is ready before the first BeginStep"));
  strategy_->BeginStep();
  for (const size_t i : {2u, 1u, 0u}) Mark(i);
  strategy_->Finish();
  EXPECT_THAT(ErrorOf<std::logic_error>([&] { Mark(0); }), HasSubstr("'p0' is ready a second time"));
}

TEST_P(CheckedTest, AParameterThatIsListedTwiceIsNamed) {
  std::vector<Parameter*> params = model_.params();
  params.push_back(params[1]);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] {
              MakeStrategy(GetParam(), {params, *groups_[0], {}});
            }),
            "parameter 'p1' is listed twice");
}

TEST_P(CheckedTest, NoParametersAreRefused) {
  EXPECT_EQ(ErrorOf<std::logic_error>([&] {
              MakeStrategy(GetParam(), {{}, *groups_[0], {}});
            }),
            "strategy '" + GetParam() + "': there are no parameters to train");
}

// On rank 1, in the second step, before any other rank has it.
TEST_P(CheckedTest, NaNAndInfinityAreReportedWhereTheyArise) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    auto groups = comm::MakeGroups("local", 2);
    const std::vector<std::string> errors = comm::ErrorsOfRanks(2, [&](int rank) {
      // What is not waited for fails when its rank is gone.
      const auto group = std::move(groups[static_cast<size_t>(rank)]);
      const TestModel model({3, 4, 5});
      const auto strategy =
          MakeStrategy(GetParam(), {model.params(), *group, {.bucket_bytes = 16, .check_gradients = true}});
      model::Sgd optimizer(model.params(), {});
      for (int step = 0; step < 2; ++step) {
        for (Parameter* param : model.params()) param->ResetGrad();
        strategy->BeginStep();
        model::Backward(TestModel::Scaled(model.Loss(rank, step), strategy->loss_scale()), model.params(),
                        [&](Parameter& param) {
                          if (rank == 1 && step == 1 && param.name() == "p1") {
                            param.grad().data<float>()[2] = bad;
                          }
                          strategy->OnGradReady(param);
                        });
        strategy->Finish();
        strategy->Update(optimizer);
      }
    });
    EXPECT_EQ(errors[1], "rank 1, step 1 of strategy '" + GetParam() +
                             "': the gradient of 'p1' is NaN or infinite at element 2 of 4");
    // One with a period does not send in this step.
    if (TraitsOf(GetParam()).communicates && TraitsOf(GetParam()).OptionFor(Option::Role::kPeriod).empty()) {
      EXPECT_THAT(errors[0], HasSubstr("rank 1"));
    }
  }
}

}  // namespace
}  // namespace gradsync::ddp
