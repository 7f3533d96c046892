#ifndef GRADSYNC_DDP_EQUIVALENCE_SUITE_H_
#define GRADSYNC_DDP_EQUIVALENCE_SUITE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rank_threads.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"

// Every strategy equals a single process that sees all ranks' data: exactly, because the data are integers
// and the worlds powers of two; for other worlds to rounding. For one source of a test, which says with what
// backends and on what devices.
namespace gradsync::ddp {

inline const std::vector<int64_t> kNumels = {5, 1000, 1, 70000, 33, 300000, 16, 17};
constexpr int kSteps = 3;  // core changes its layout after the first
constexpr float kRate = 0.5f;

using Values = std::vector<std::vector<float>>;

// Parameters after kSteps of gradient descent, and the last gradients.
struct Result {
  Values params;
  Values grads;
};

inline void Descend(const TestModel& model) {
  for (model::Parameter* param : model.params()) {
    const model::Tensor update = param->grad().Clone();
    Scale(update, -kRate);
    AddTo(update, param->MutableValue());
  }
}

inline Result Collect(const TestModel& model) {
  Result result;
  for (model::Parameter* param : model.params()) {
    result.params.push_back(param->value().ToVector<float>());
    result.grads.push_back(param->grad().ToVector<float>());
  }
  return result;
}

// One process, all ranks' data: the mean of the ranks' losses.
inline Result SingleProcess(int world_size) {
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

inline Result Train(std::string_view strategy_name, size_t bucket_bytes, comm::ProcessGroup& group,
                    const model::DevicePtr& device) {
  const TestModel model(kNumels, device);
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

// Trains with a rank for each of the devices, and compares.
inline void CheckEquivalence(std::string_view strategy, size_t bucket_bytes, const std::string& backend,
                             const std::vector<model::DevicePtr>& devices) {
  const auto world_size = static_cast<int>(devices.size());
  const std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeGroups(backend, devices);
  std::vector<Result> results(groups.size());
  comm::RunRanks(world_size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    results[r] = Train(strategy, bucket_bytes, *groups[r], devices[r]);
  });
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

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_EQUIVALENCE_SUITE_H_
