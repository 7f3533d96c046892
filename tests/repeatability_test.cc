// The same seed, threads and strategy give the same bits: losses and weights after a few steps, whatever the
// threads of ranks, kernels and communication did when.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/functions.h"
#include "model/transformer/test_transformer.h"
#include "model/vision/test_resnet.h"

namespace gradsync {
namespace {

using model::Batch;
using model::DevicePtr;
using model::Parameter;

constexpr int kWorldSize = 3;  // means are rounded
constexpr int kThreads = 2;
constexpr int kSteps = 4;

// What one rank has at the end.
struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> values;

  bool operator==(const Outcome&) const = default;
};

Outcome TrainRank(model::Model& model, const Batch& batch, const std::string& strategy_name,
                  comm::ProcessGroup& group) {
  ddp::StrategyOptions options = {.bucket_bytes = 20'000};
  const std::string period(ddp::TraitsOf(strategy_name).OptionFor(ddp::Option::Role::kPeriod));
  if (!period.empty()) options.values[period] = kSteps / 2;
  ddp::StrategyContext context = {.params = model.parameters(), .group = group, .options = options};
  context.units = model.units();
  const auto strategy = ddp::MakeStrategy(strategy_name, context);
  model::AdamW optimizer(model.parameters(), {});
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    for (Parameter* param : model.parameters()) param->ResetGrad();
    strategy->BeginStep();
    const model::Var loss = model.Loss(batch);
    outcome.losses.push_back(loss.value().ToVector<float>()[0]);
    model::Backward(
        model::Scale(loss, strategy->loss_scale()), model.parameters(),
        [&](Parameter& param) { strategy->OnGradReady(param); },
        [&](const Parameter& param) { strategy->OnUse(param); });
    strategy->Finish();
    strategy->Update(optimizer);
  }
  strategy->CompleteValues();
  for (const Parameter* param : model.parameters())
    outcome.values.push_back(param->value().ToVector<float>());
  return outcome;
}

using Case = std::tuple<std::string, std::string, std::string>;  // model, backend, strategy

std::vector<Outcome> Train(const Case& c) {
  const auto& [model_name, backend, strategy] = c;
  const std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeGroups(backend, kWorldSize);
  std::vector<Outcome> outcomes(groups.size());
  comm::RunRanks(kWorldSize, [&, &name = model_name, &strategy_name = strategy](int rank) {
    const DevicePtr device = model::CpuDevice(kThreads);
    std::unique_ptr<model::Model> trained;
    Batch batch;
    if (name == "transformer") {
      const model::TransformerConfig config = model::TiledTransformer(16);
      trained = std::make_unique<model::Transformer>(config, device, model::DType::kF32, /*seed=*/3);
      batch = model::RandomTokens(device, config, 2, 100, /*seed=*/static_cast<uint64_t>(rank));
    } else {
      trained = std::make_unique<model::ResNet>(model::MicroResNet(), device, model::DType::kF32, /*seed=*/3);
      batch = model::RandomImages(device, 2 + rank, 32, 32, 10);
    }
    const auto r = static_cast<size_t>(rank);
    outcomes[r] = TrainRank(*trained, batch, strategy_name, *groups[r]);
  });
  return outcomes;
}

class RepeatabilityTest : public testing::TestWithParam<Case> {};

TEST_P(RepeatabilityTest, TheSameRunGivesTheSameBits) {
  const std::vector<Outcome> first = Train(GetParam());
  EXPECT_NE(first[0].losses.front(), first[0].losses.back());
  const bool averages = ddp::TraitsOf(std::get<2>(GetParam())).communicates;
  for (const Outcome& outcome : first)
    EXPECT_EQ(outcome.values == first[0].values, averages || &outcome == &first[0]);
  EXPECT_TRUE(Train(GetParam()) == first);
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, RepeatabilityTest,
                         testing::Combine(testing::Values("transformer", "resnet"),
                                          testing::Values("local", "gloo"),
                                          testing::ValuesIn(ddp::StrategyNames())),
                         [](const auto& tested) {
                           return std::get<0>(tested.param) + "_" + std::get<1>(tested.param) + "_" +
                                  std::get<2>(tested.param);
                         });

}  // namespace
}  // namespace gradsync
