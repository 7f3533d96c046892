// Every strategy equals a single process that sees all ranks' data: exactly, because the data are integers
// and the worlds powers of two; for other worlds to rounding.

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "comm/local_process_group.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"

namespace gradsync::ddp {
namespace {

const std::vector<int64_t> kNumels = {5, 1000, 1, 70000, 33, 300000, 16, 17};
constexpr int kSteps = 3;  // core changes its layout after the first
constexpr float kRate = 0.5f;

using Values = std::vector<std::vector<float>>;

// Parameters after kSteps of gradient descent, and the last gradients.
struct Result {
  Values params;
  Values grads;
};

void Descend(const TestModel& model) {
  for (model::Parameter* param : model.params()) {
    const model::Tensor update = param->grad().Clone();
    Scale(update, -kRate);
    AddTo(update, param->value());
  }
}

Result Collect(const TestModel& model) {
  Result result;
  for (model::Parameter* param : model.params()) {
    result.params.push_back(param->value().ToVector<float>());
    result.grads.push_back(param->grad().ToVector<float>());
  }
  return result;
}

// One process, all ranks' data: the mean of the ranks' losses.
Result SingleProcess(int world_size) {
  const TestModel model(kNumels);
  for (int step = 0; step < kSteps; ++step) {
    for (model::Parameter* param : model.params()) param->ResetGrad();
    for (int rank = 0; rank < world_size; ++rank) {
      model::Backward(TestModel::Scaled(model.Loss(rank, step), 1.0 / world_size), model.params());
    }
    Descend(model);
  }
  return Collect(model);
}

Result Train(std::string_view strategy_name, size_t bucket_bytes, comm::ProcessGroup& group) {
  const TestModel model(kNumels);
  const std::unique_ptr<Strategy> strategy =
      MakeStrategy(strategy_name, {.params = model.params(), .group = group, .options = {bucket_bytes}});
  for (int step = 0; step < kSteps; ++step) {
    for (model::Parameter* param : model.params()) param->ResetGrad();
    strategy->BeginStep();
    model::Backward(TestModel::Scaled(model.Loss(group.rank(), step), strategy->loss_scale()), model.params(),
                    [&](model::Parameter& p) { strategy->OnGradReady(p); });
    strategy->Finish();
    Descend(model);
  }
  return Collect(model);
}

using Case = std::tuple<std::string, int, size_t>;  // strategy, world size, bucket bytes

class EquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceTest, EqualsOneProcessOnTheWholeBatch) {
  const auto& [name, world_size, bucket_bytes] = GetParam();
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeLocalGroups(world_size);
  std::vector<Result> results(groups.size());
  std::vector<std::exception_ptr> errors(groups.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < groups.size(); ++r) {
    ranks.emplace_back([&, r] {
      try {
        results[r] = Train(std::get<0>(GetParam()), std::get<2>(GetParam()), *groups[r]);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  const Result expected = SingleProcess(world_size);
  const bool exact = (world_size & (world_size - 1)) == 0;
  for (size_t r = 0; r < results.size(); ++r) {
    EXPECT_EQ(results[r].params, results[0].params) << "rank " << r << " has drifted from rank 0";
    for (size_t p = 0; p < kNumels.size(); ++p) {
      for (size_t i = 0; i < expected.grads[p].size(); ++i) {
        const float tolerance = exact ? 0.0f : 1e-4f;  // |gradient| <= 32, a few roundings of 2^-24 each
        ASSERT_NEAR(results[r].grads[p][i], expected.grads[p][i], tolerance)
            << "rank " << r << " p" << p << " " << i;
        ASSERT_NEAR(results[r].params[p][i], expected.params[p][i], 4 * tolerance)
            << "rank " << r << " p" << p;
      }
    }
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return std::get<0>(info.param) + "_world" + std::to_string(std::get<1>(info.param)) + "_bucket" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    AllStrategies, EquivalenceTest,
    testing::Combine(testing::Values("naive", "flat", "overlap", "bucketed_sync", "bucketed_async", "core"),
                     testing::Values(1, 2, 3, 4),
                     testing::Values(size_t{1}, size_t{4000}, size_t{300000}, size_t{25} << 20)),
    CaseName);

// The list above must not fall behind the factory's; `none` is the one that does not average.
TEST(EquivalenceListTest, CoversEveryStrategy) {
  EXPECT_EQ(StrategyNames(), (std::vector<std::string>{"none", "naive", "flat", "overlap", "bucketed_sync",
                                                       "bucketed_async", "core"}));
}

TEST(NoneTest, LeavesEveryRankItsOwnGradient) {
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeLocalGroups(2);
  const TestModel model(kNumels);
  const auto strategy = MakeStrategy("none", {.params = model.params(), .group = *groups[1], .options = {}});
  model::Backward(model.Loss(1, 0), model.params(), [&](model::Parameter& p) { strategy->OnGradReady(p); });
  strategy->Finish();
  EXPECT_EQ(model.params()[0]->grad().ToVector<float>()[2], TestModel::DataAt(1, 0, 0, 2));
}

}  // namespace
}  // namespace gradsync::ddp
