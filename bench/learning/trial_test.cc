#include "bench/learning/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/base/error.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kSeed = 7;

std::unique_ptr<ConvergencePlan> PlanOf(const std::string& variants, std::vector<std::string> more = {}) {
  ConvergenceOptions options;
  FlagTable flags("test", "");
  options.AddTo(flags);
  more.insert(more.end(), {"--variants=" + variants, "--backend=shm", "--num_layers=1", "--d_model=16",
                           "--d_ff=32", "--num_heads=2", "--seq_len=16", "--batch_size=4",
                           "--held_out_windows=7", "--learning_rate=0.01"});
  if (std::ranges::none_of(more, [](const std::string& flag) { return flag.starts_with("--steps="); }))
    more.emplace_back("--steps=1000");
  std::vector<const char*> argv = {"test"};
  for (const std::string& argument : more) argv.push_back(argument.c_str());
  flags.Parse(static_cast<int>(argv.size()), argv.data());
  return std::make_unique<ConvergencePlan>(options, flags);
}

Corpus SmallCorpus() {
  Corpus corpus{.name = "small", .training = "", .held_out = "", .sha256 = "1234"};
  for (int i = 0; i < 60; ++i) corpus.training += Join("line ", i * i, ": the same words again and again\n");
  for (int i = 0; i < 10; ++i) corpus.held_out += Join("line ", i * 37, ": the same words again and again\n");
  return corpus;
}

using Body = std::function<void(Trial& trial, int rank)>;

// A trial of the first variant on each of so many ranks, which are threads.
void RunTrials(const ConvergencePlan& plan, const Corpus& corpus, int world_size, const Body& body,
               const std::string& backend = "local") {
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeGroups(backend, world_size);
  comm::RunRanks(world_size, [&](int rank) {
    comm::RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    Trial trial(plan, plan.settings.front().front(), kSeed, corpus, model::CpuDevice(1), group, group);
    body(trial, rank);
  });
}

// `parts`: passes in each step. `rate`: that of step i.
void ExpectLossesOfASingleProcess(const ConvergencePlan* plan, double clip_norm, int64_t parts,
                                  const std::function<double(int64_t i)>& rate) {
  constexpr int64_t kSteps = 12;
  const Corpus corpus = SmallCorpus();
  std::vector<std::vector<double>> losses(2);
  double sent_bytes = 0;
  RunTrials(*plan, corpus, 2, [&](Trial& trial, int rank) {
    for (int64_t i = 0; i < kSteps; ++i) {
      const TrialStep step = trial.Step();
      losses[static_cast<size_t>(rank)].push_back(step.loss);
      if (rank == 0) sent_bytes = step.sent_bytes;
    }
  });
  // Two ranks send each gradient once; parts of them need another collective for their norm, of 8 bytes.
  const bool has_parts = plan->settings.front().front().traits->shards_state;
  auto groups = comm::MakeGroups("local", 1);
  comm::RecordingProcessGroup group(std::move(groups[0]));
  const model::DevicePtr device = model::CpuDevice(1);
  Trainer trainer(std::make_unique<model::Transformer>(plan->training.transformer_config(), device,
                                                       model::DType::kF32, static_cast<uint64_t>(kSeed)),
                  {OptimizerKind::kAdamW, 1, /*decay_vectors=*/parts == 1}, device, group,
                  CpuClock(ThreadIds()));
  trainer.Restart();
  double elements = static_cast<double>(trainer.num_elements());
  if (plan->settings.front().front().traits->shards_values) {
    // In each pass half of the vector is sent to gather it in forward, to gather all but the last two units
    // in backward, and to reduce it.
    std::vector<std::vector<model::Parameter*>> units = trainer.model().units();
    double kept = 0;
    for (size_t i = units.size() - 2; i < units.size(); ++i) {
      for (const model::Parameter* param : units[i]) kept += static_cast<double>(param->value().numel());
    }
    elements = static_cast<double>(parts) * (3 * elements - kept) / 2;
  }
  EXPECT_DOUBLE_EQ(sent_bytes, 4.0 * elements + (has_parts ? 8 : 0));
  const std::unique_ptr<BatchSource> source = TextTokens(corpus.training, static_cast<uint64_t>(kSeed));
  const BatchShape shape = {{4 * parts, 16}, model::DType::kI32, {4 * parts, 16}, model::DType::kI32};
  const std::vector<model::Batch> batches = {shape.NewBatch(device), shape.NewBatch(device)};
  for (int64_t i = 0; i < kSteps; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto number = static_cast<size_t>(rank);
      source->Fill(rank, i, batches[number]);
      const double loss = trainer.model().Loss(batches[number]).value().ToVector<float>().front();
      EXPECT_NEAR(losses[number][static_cast<size_t>(i)], loss, 1e-4) << "step " << i << ", rank " << rank;
    }
    trainer.ComputeGradientsAlone(batches);
    trainer.StepOptimizer(clip_norm, rate(i));
  }
  EXPECT_LT(losses[0].back(), 0.8 * losses[0].front());
}

TEST(TrialTest, LossFallsLikeThatOfASingleProcess) {
  ExpectLossesOfASingleProcess(PlanOf("naive").get(), std::numeric_limits<double>::infinity(), 1,
                               [](int64_t) { return 0.01; });
}

// A recipe takes all parts of a step at once.
TEST(TrialTest, LossFallsLikeThatOfASingleProcessWithAllOfARecipe) {
  for (const std::string& name : ddp::ExactStrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    if (!traits.communicates || !traits.can_clip) continue;
    SCOPED_TRACE(name);
    const auto plan = PlanOf(name + ":clip_norm=0.5", {"--accumulation_steps=3", "--decay=matrices",
                                                       "--lr_schedule=cosine,warmup=4,min=0.1"});
    ExpectLossesOfASingleProcess(plan.get(), 0.5, 3, [](int64_t i) {
      const double angle = std::acos(-1.0) * static_cast<double>(i - 4) / 996;
      return 0.01 * (i < 4 ? 0.2 * static_cast<double>(i + 1) : 0.55 + 0.45 * std::cos(angle));
    });
  }
}

// What one pass needs memory for, and not what all do.
TEST(TrialTest, PartsOfAStepAreTakenOneAfterTheOther) {
  const Corpus corpus = SmallCorpus();
  const auto peak_with = [&](const std::vector<std::string>& flags) {
    const auto plan = PlanOf("naive", flags);
    comm::RecordingProcessGroup group(std::move(comm::MakeGroups("local", 1)[0]));
    const model::DevicePtr device = model::CpuDevice(1);
    Trial trial(*plan, plan->settings.front().front(), kSeed, corpus, device, group, group);
    trial.Step();
    return device->allocator().stats().peak_bytes_in_use;
  };
  EXPECT_LT(peak_with({"--accumulation_steps=8"}), 2 * peak_with({}));
}

// In between, each rank would judge a replica of its own.
TEST(TrialTest, JudgesAfterWholePeriods) {
  const char* const variants = "naive,local_sgd:period=6,diloco:period=8";
  const auto error_of = [](const char* of, const std::vector<std::string>& flags) {
    return comm::ErrorOf<InvalidInput>([&] { PlanOf(of, flags); });
  };
  EXPECT_EQ(PlanOf("naive")->evaluated_every, 50);
  EXPECT_EQ(PlanOf(variants, {"--steps=1008"})->evaluated_every, 72);
  EXPECT_EQ(PlanOf(variants, {"--steps=1008", "--evaluate_every=24"})->evaluated_every, 24);
  EXPECT_EQ(
      error_of("diloco:period=7", {}),
      "--steps=1000: ends within a period of diloco:period=7@shm, expected 1001 or another multiple of 7");
  EXPECT_EQ(error_of(variants, {"--steps=1000"}),
            "--steps=1000: ends within a period of local_sgd:period=6@shm, expected 1008 or another "
            "multiple of 24");
  EXPECT_EQ(error_of(variants, {"--steps=1008", "--evaluate_every=30"}),
            "--evaluate_every=30: ends within a period of diloco@shm, expected 48 or another multiple of 24");
}

// AdamW takes a hundredth of the rate of each weight that decays; those of norms are 1 at first.
TEST(TrialTest, NormsDecayUnlessMatricesAloneDo) {
  const Corpus corpus = SmallCorpus();
  std::vector<std::vector<std::vector<float>>> after(2);
  std::vector<bool> is_norm;
  for (size_t k = 0; k < 2; ++k) {
    const auto plan = PlanOf("naive", {k == 0 ? "--decay=all" : "--decay=matrices"});
    RunTrials(*plan, corpus, 1, [&](Trial& trial, int) {
      trial.Step();
      for (const model::Parameter* const param : trial.trainer().params()) {
        after[k].push_back(param->value().ToVector<float>());
        if (k == 0) is_norm.push_back(param->value().shape().size() == 1);
      }
    });
  }
  for (size_t i = 0; i < is_norm.size(); ++i) {
    for (size_t j = 0; j < after[0][i].size(); ++j)
      ASSERT_NEAR(after[1][i][j] - after[0][i][j], is_norm[i] ? 0.01 * 0.01 : 0, is_norm[i] ? 1e-6 : 0) << i;
  }
  EXPECT_EQ(std::ranges::count(is_norm, true), 3);
}

TEST(TrialTest, RanksShareTheHeldOutText) {
  const auto plan = PlanOf("naive");
  const Corpus corpus = SmallCorpus();
  std::vector<double> of_worlds;
  for (const int world_size : {1, 2, 3}) {
    RunTrials(*plan, corpus, world_size, [&](Trial& trial, int rank) {
      const double loss = trial.MeasureHeldOutLoss();
      if (rank == 0) of_worlds.push_back(loss);
    });
  }
  // By the definition: the mean of windows at even distances, each for itself.
  const model::DevicePtr device = model::CpuDevice();
  model::Transformer alone(plan->training.transformer_config(), device, model::DType::kF32,
                           static_cast<uint64_t>(kSeed));
  double expected = 0;
  for (size_t i = 0; i < 7; ++i) {
    std::vector<int32_t> bytes;
    for (size_t k = 0; k <= 16; ++k)
      bytes.push_back(static_cast<unsigned char>(corpus.held_out[i * (corpus.held_out.size() - 17) / 6 + k]));
    const model::Tensor window = model::Tensor::From<int32_t>(device, {17}, std::span<const int32_t>(bytes));
    const model::Var loss = alone.Loss({window.Slice(0, {1, 16}), window.Slice(1, {1, 16})});
    expected += loss.value().ToVector<float>().front() / 7;
  }
  for (const double loss : of_worlds) EXPECT_NEAR(loss, expected, 1e-6);
}

}  // namespace
}  // namespace gradsync::bench
