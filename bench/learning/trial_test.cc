#include "bench/learning/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/testing/run_program.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/error.h"
#include "model/safetensors.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSeed = 7;

std::unique_ptr<ConvergenceOptions> Options(const std::string& variants, std::vector<std::string> more = {}) {
  auto options = std::make_unique<ConvergenceOptions>();
  FlagTable flags("test", "");
  options->AddTo(flags);
  more.insert(more.end(), {"--variants=" + variants, "--backend=shm", "--num_layers=1", "--d_model=16",
                           "--d_ff=32", "--num_heads=2", "--seq_len=16", "--batch_size=4", "--steps=1000",
                           "--held_out_windows=7", "--learning_rate=0.01"});
  std::vector<const char*> argv = {"test"};
  for (const std::string& argument : more) argv.push_back(argument.c_str());
  flags.Parse(static_cast<int>(argv.size()), argv.data());
  comm::World world;
  world.size = world.local_size = 2;
  options->Complete(flags, world);
  return options;
}

Corpus SmallCorpus() {
  Corpus corpus{.name = "small", .training = "", .held_out = "", .sha256 = "1234"};
  for (int i = 0; i < 60; ++i) corpus.training += Join("line ", i * i, ": the same words again and again\n");
  for (int i = 0; i < 10; ++i) corpus.held_out += Join("line ", i * 37, ": the same words again and again\n");
  return corpus;
}

using Body = std::function<void(Trial& trial, int rank)>;

// A trial of the first variant on each of so many ranks, which are threads.
void RunTrials(const ConvergenceOptions& options, const Corpus& corpus, int world_size, const Body& body,
               const std::string& backend = "local") {
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeGroups(backend, world_size);
  comm::RunRanks(world_size, [&](int rank) {
    comm::RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    Trial trial(options, options.training.variants.front(), kSeed, corpus, model::CpuDevice(1), group, group);
    body(trial, rank);
  });
}

// The losses of this rank's steps, and last the loss on held-out text.
std::vector<double> LossesOf(Trial& trial, int64_t num_steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < num_steps; ++i) losses.push_back(trial.Step().loss);
  losses.push_back(trial.HeldOutLoss());
  return losses;
}

// `parts`: passes in each step. `rate`: that of step i.
void ExpectLossesOfASingleProcess(const ConvergenceOptions* options, double clip_norm, int64_t parts,
                                  const std::function<double(int64_t i)>& rate) {
  constexpr int64_t kSteps = 12;
  const Corpus corpus = SmallCorpus();
  std::vector<std::vector<double>> losses(2);
  double sent_bytes = 0;
  RunTrials(*options, corpus, 2, [&](Trial& trial, int rank) {
    for (int64_t i = 0; i < kSteps; ++i) {
      const TrialStep step = trial.Step();
      losses[static_cast<size_t>(rank)].push_back(step.loss);
      if (rank == 0) sent_bytes = step.sent_bytes;
    }
  });
  // Two ranks send each gradient once; parts of them need another collective for their norm, of 8 bytes.
  const bool has_parts = options->training.variants.front().traits->shards_state;
  auto groups = comm::MakeGroups("local", 1);
  comm::RecordingProcessGroup group(std::move(groups[0]));
  const model::DevicePtr device = model::CpuDevice(1);
  Trainer trainer(std::make_unique<model::Transformer>(options->training.transformer_config(), device,
                                                       model::DType::kF32, static_cast<uint64_t>(kSeed)),
                  {"adamw", 1, /*decay_vectors=*/parts == 1}, device, group, CpuClock(ThreadIds()));
  trainer.Restart();
  double elements = static_cast<double>(trainer.num_elements());
  if (options->training.variants.front().traits->shards_values) {
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
    trainer.GradientsAlone(batches);
    trainer.optimizer().SetLearningRate(rate(i));
    trainer.StepOptimizer(clip_norm);
  }
  EXPECT_LT(losses[0].back(), 0.8 * losses[0].front());
}

TEST(TrialTest, LossFallsLikeThatOfASingleProcess) {
  ExpectLossesOfASingleProcess(Options("naive").get(), std::numeric_limits<double>::infinity(), 1,
                               [](int64_t) { return 0.01; });
}

// A recipe takes all parts of a step at once.
TEST(TrialTest, LossFallsLikeThatOfASingleProcessWithAllOfARecipe) {
  for (const std::string& name : ddp::ExactStrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    if (!traits.communicates || !traits.can_clip) continue;
    SCOPED_TRACE(name);
    const auto options = Options(name + ":clip_norm=0.5", {"--accumulation_steps=3", "--decay=matrices",
                                                           "--lr_schedule=cosine,warmup=4,min=0.1"});
    ExpectLossesOfASingleProcess(options.get(), 0.5, 3, [](int64_t i) {
      const double angle = std::acos(-1.0) * static_cast<double>(i - 4) / 996;
      return 0.01 * (i < 4 ? 0.2 * static_cast<double>(i + 1) : 0.55 + 0.45 * std::cos(angle));
    });
  }
}

// What one pass needs memory for, and not what all do.
TEST(TrialTest, PartsOfAStepAreTakenOneAfterTheOther) {
  const Corpus corpus = SmallCorpus();
  const auto peak_with = [&](const std::vector<std::string>& flags) {
    const auto options = Options("naive", flags);
    comm::RecordingProcessGroup group(std::move(comm::MakeGroups("local", 1)[0]));
    const model::DevicePtr device = model::CpuDevice(1);
    Trial trial(*options, options->training.variants.front(), kSeed, corpus, device, group, group);
    trial.Step();
    return device->allocator().stats().peak_bytes_in_use;
  };
  EXPECT_LT(peak_with({"--accumulation_steps=8"}), 2 * peak_with({}));
}

// A schedule is that of all steps, wherever a run stops.
TEST(TrialTest, ARunThatStopsEarlyFollowsTheWholeSchedule) {
  const auto options = Options("naive", {"--lr_schedule=cosine", "--stop_after=600"});
  EXPECT_DOUBLE_EQ(options->LearningRateIn(options->training.variants.front(), 500), 0.005);
}

// In between, each rank would judge a replica of its own.
TEST(TrialTest, JudgesAfterWholePeriods) {
  const char* const variants = "naive,local_sgd:period=6,diloco:period=8";
  const auto error_of = [](const char* of, const std::vector<std::string>& flags) -> std::string {
    try {
      Options(of, flags);
      return "";
    } catch (const InvalidInput& error) {
      return error.what();
    }
  };
  EXPECT_EQ(*Options("naive")->evaluate_every, 50);
  EXPECT_EQ(*Options(variants, {"--stop_after=48"})->evaluate_every, 72);
  EXPECT_EQ(*Options(variants, {"--stop_after=48", "--evaluate_every=24"})->evaluate_every, 24);
  EXPECT_EQ(
      error_of("diloco:period=7", {}),
      "--steps=1000: ends within a period of diloco:period=7@shm, expected 1001 or another multiple of 7");
  EXPECT_EQ(error_of(variants, {"--stop_after=16"}),
            "--stop_after=16: ends within a period of local_sgd:period=6@shm, expected 24 or another "
            "multiple of 24");
  EXPECT_EQ(error_of(variants, {"--stop_after=48", "--evaluate_every=30"}),
            "--evaluate_every=30: ends within a period of diloco@shm, expected 48 or another multiple of 24");
  // Nothing is trained.
  EXPECT_EQ(error_of("diloco:period=7", {"--eval", "--resume=somewhere"}), "");
}

// Finish unpacks what was compressed; but what it waits is no work.
TEST(TrialTest, OwnWorkIsThatOfHooksAndFinishWithoutWaits) {
  for (const std::string& name : ddp::StrategyNames()) {
    const auto options = Options(name);
    RunTrials(*options, SmallCorpus(), 2, [&](Trial& trial, int) {
      for (int i = 0; i < 3; ++i) {
        const TrialStep step = trial.Step();
        const int64_t in_backward = *step.times.begin_step_ns + *step.times.hooks_ns;
        const ddp::Traits& traits = *options->training.variants.front().traits;
        EXPECT_GT(step.own_ns, 0) << name;
        // These do not wait before Finish.
        if (traits.agreement == ddp::Agreement::kLossy) {
          EXPECT_GT(step.own_ns, in_backward) << name;
        }
        if (traits.communicates && traits.period_option.empty()) {
          EXPECT_LT(step.own_ns, in_backward + step.times.marks.sync_exposed_ns()) << name;
        }
      }
    });
  }
}

// AdamW takes a hundredth of the rate of each weight that decays; those of norms are 1 at first.
TEST(TrialTest, NormsDecayUnlessMatricesAloneDo) {
  const Corpus corpus = SmallCorpus();
  std::vector<model::SafetensorsFile> after;
  for (const char* const decay : {"--decay=all", "--decay=matrices"}) {
    const auto options = Options("naive", {decay});
    const std::string directory = FreshDirectory();
    RunTrials(*options, corpus, 1, [&](Trial& trial, int) {
      trial.Step();
      trial.Save(directory);
    });
    const std::string name = options->training.variants.front().name();
    after.push_back(model::SafetensorsFile::Open(CheckpointPath(directory, name, kSeed, 0)));
  }
  int num_norms = 0;
  for (const auto& entry : after[0].entries()) {
    const auto all = after[0].Load(entry.name, model::CpuDevice()).ToVector<float>();
    const auto matrices = after[1].Load(entry.name, model::CpuDevice()).ToVector<float>();
    const bool is_norm = entry.shape.size() == 1 && !entry.name.starts_with("optimizer.");
    num_norms += is_norm ? 1 : 0;
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_NEAR(matrices[i] - all[i], is_norm ? 0.01 * 0.01 : 0, is_norm ? 1e-6 : 0) << entry.name;
  }
  EXPECT_EQ(num_norms, 3);
}

TEST(TrialTest, RanksShareTheHeldOutText) {
  const auto options = Options("naive");
  const Corpus corpus = SmallCorpus();
  std::vector<double> of_worlds;
  for (const int world_size : {1, 2, 3}) {
    RunTrials(*options, corpus, world_size, [&](Trial& trial, int rank) {
      const double loss = trial.HeldOutLoss();
      if (rank == 0) of_worlds.push_back(loss);
    });
  }
  // By the definition: the mean of windows at even distances, each for itself.
  const model::DevicePtr device = model::CpuDevice();
  model::Transformer alone(options->training.transformer_config(), device, model::DType::kF32,
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

class CheckpointTest : public ::testing::TestWithParam<std::string> {};

// Whatever a strategy remembers: so many steps, and as many after a resumption, are twice as many.
TEST_P(CheckpointTest, AResumedTrialContinuesBitForBit) {
  const auto options = Options(GetParam());
  const Corpus corpus = SmallCorpus();
  const std::string directory = FreshDirectory();
  const int64_t period = options->training.variants.front().period(), half = (2 + period) / period * period;
  // Over shm, parts of the weights are in memory that ranks have in common.
  for (const char* const backend : {"local", "shm"}) {
    std::vector<std::vector<double>> whole(2), resumed(2);
    const auto run = [&](const Body& body) { RunTrials(*options, corpus, 2, body, backend); };
    run([&](Trial& trial, int rank) { whole[static_cast<size_t>(rank)] = LossesOf(trial, 2 * half); });
    run([&](Trial& trial, int) {
      for (int64_t i = 0; i < half; ++i) trial.Step();
      trial.Save(directory);
    });
    run([&](Trial& trial, int rank) {
      trial.Load(directory);
      EXPECT_EQ(trial.num_steps(), half);
      resumed[static_cast<size_t>(rank)] = LossesOf(trial, half);
    });
    for (std::vector<double>& losses : whole) losses.erase(losses.begin(), losses.begin() + half);
    EXPECT_EQ(whole, resumed) << backend;
  }
}

TEST_P(CheckpointTest, ExactOnesGoOnWithAnotherNumberOfRanks) {
  const auto options = Options(GetParam());
  const bool is_exact = options->training.variants.front().traits->agreement == ddp::Agreement::kExact;
  const Corpus corpus = SmallCorpus();
  const std::string of_two = FreshDirectory(), of_three = FreshDirectory(), again = FreshDirectory();
  std::vector<double> before, through_three;
  RunTrials(*options, corpus, 2, [&](Trial& trial, int rank) {
    for (int64_t i = 0; i < 5; ++i) trial.Step();
    trial.Save(of_two);
    std::vector<double> own = LossesOf(trial, 5);
    if (rank == 0) before = own;
  });
  std::string refused;
  RunTrials(*options, corpus, 3, [&](Trial& trial, int rank) {
    try {
      trial.Load(of_two);
      trial.Save(of_three);
    } catch (const InvalidInput& error) {
      if (rank == 0) refused = error.what();
    }
  });
  if (!is_exact) {
    EXPECT_THAT(refused, HasSubstr("is of 2 ranks, found 3"));
    return;
  }
  EXPECT_EQ(refused, "");
  RunTrials(*options, corpus, 2, [&](Trial& trial, int rank) {
    trial.Load(of_three);
    std::vector<double> own = LossesOf(trial, 5);
    if (rank == 0) through_three = own;
  });
  EXPECT_EQ(before, through_three);
}

// What is lossy is so from the second step on.
std::vector<std::string> AllVariants() {
  std::vector<std::string> all = ddp::StrategyNames();
  for (std::string& name : all) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    if (!traits.start_option.empty()) name += Join(":", traits.start_option, "=1");
  }
  all.insert(all.end(), {"zero1:gather=forward", "zero2:accumulate_parts=1", "core:rows=1"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Variants, CheckpointTest, ::testing::ValuesIn(AllVariants()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](char c) { return c == ':' || c == '='; }, '_');
  return name;
});

TEST(CheckpointTest, RefusesWhatIsForeignOrDamaged) {
  const auto options = Options("naive,flat");
  const TrainingVariant &naive = options->training.variants[0], &flat = options->training.variants[1];
  const Corpus corpus = SmallCorpus();
  const std::string directory = FreshDirectory(), uneven = FreshDirectory();
  RunTrials(*options, corpus, 2, [&](Trial& trial, int rank) {
    trial.Step();
    trial.Save(directory);
    if (rank == 0) trial.Save(uneven);
    trial.Step();
    if (rank == 1) trial.Save(uneven);
  });
  const auto error_of = [&](const TrainingVariant& variant, const ConvergenceOptions& asked,
                            const Corpus& text, const std::string* from = nullptr) -> std::string {
    try {
      Trial::Check(asked, variant, kSeed, text, from == nullptr ? directory : *from, 1, 2);
      return "no error";
    } catch (const InvalidInput& error) {
      return error.what();
    }
  };
  EXPECT_EQ(error_of(naive, *options, corpus), "no error");
  EXPECT_THAT(error_of(flat, *options, corpus),
              AllOf(HasSubstr("--resume: "), HasSubstr("flat@shm.seed7.rank0")));
  Corpus other = corpus;
  other.sha256 = "5678";
  EXPECT_THAT(error_of(naive, *options, other), HasSubstr("its text_sha256 is 1234, expected 5678"));
  EXPECT_THAT(error_of(naive, *Options("naive", {"--stop_after=1"}), corpus),
              HasSubstr("has taken 1 steps, expected fewer than the 1 of this run"));
  EXPECT_THAT(error_of(naive, *options, corpus, &uneven),
              AllOf(HasSubstr("rank1.safetensors: was saved after 2 steps, "), HasSubstr(" after 1")));
  const auto error_with = [&](const char* flag) {
    return error_of(naive, *Options("naive", {flag}), corpus);
  };
  EXPECT_THAT(error_with("--dtype=bf16"), HasSubstr("its model is 1 x 16 x 32, 2 heads, f32, expected "));
  EXPECT_THAT(error_with("--accumulation_steps=2"), HasSubstr("its batch is 4 x 16, expected 4 x 16 x 2"));
  EXPECT_THAT(error_with("--optimizer=sgd"), HasSubstr("its optimizer is adamw 0.01, expected sgd 0.01"));
  EXPECT_THAT(error_with("--lr_schedule=cosine"),
              HasSubstr("its optimizer is adamw 0.01, expected adamw 0.01 cosine in "));
  const std::string of_flat = CheckpointPath(directory, flat.name(), kSeed, 0);
  std::filesystem::copy(CheckpointPath(directory, naive.name(), kSeed, 0), of_flat);
  EXPECT_THAT(error_of(flat, *options, corpus), HasSubstr("its variant is naive@shm, expected flat@shm"));
  model::WriteSafetensors(of_flat, std::vector<model::NamedTensor>{});
  EXPECT_THAT(error_of(flat, *options, corpus), HasSubstr("is not a checkpoint of gradsync"));
  const std::string of_rank1 = CheckpointPath(directory, naive.name(), kSeed, 1);
  std::filesystem::resize_file(of_rank1, std::filesystem::file_size(of_rank1) - 1);
  const std::string damaged = error_of(naive, *options, corpus);
  EXPECT_THAT(damaged, AllOf(HasSubstr("--resume: "), HasSubstr("naive@shm.seed7.rank1.safetensors")));
  EXPECT_EQ(damaged.find('\n'), std::string::npos);
}

// A tensor that is in parts is there if all of them are.
TEST(CheckpointTest, EveryPartOfATensorIsNeeded) {
  const std::string directory = FreshDirectory();
  const auto tensor = [](std::vector<float> values) {
    return model::Tensor::From<float>(model::CpuDevice(), {std::ssize(values)}, values);
  };
  const std::vector<std::string> paths = {directory + "/0", directory + "/1"};
  SaveCheckpoint(paths[0], std::vector<model::NamedTensor>{{"m[0:2]", tensor({1, 2})}}, {});
  SaveCheckpoint(paths[1], std::vector<model::NamedTensor>{{"m[2:5]", tensor({3, 4, 5})}}, {});
  const model::Tensor whole = tensor({0, 0, 0, 0, 0});
  const std::vector<model::NamedTensor> targets = {{"m", whole}};
  LoadCheckpoint(paths, targets);
  EXPECT_EQ(whole.ToVector<float>(), (std::vector<float>{1, 2, 3, 4, 5}));
  // Each host may have all parts.
  whole.Zero();
  LoadCheckpoint({paths[0], paths[0], paths[1], paths[1]}, targets);
  EXPECT_EQ(whole.ToVector<float>(), (std::vector<float>{1, 2, 3, 4, 5}));
  for (const std::string& path : paths) {
    try {
      LoadCheckpoint({path}, targets);
      ADD_FAILURE() << "loaded from " << path;
    } catch (const InvalidInput& error) {
      EXPECT_EQ(error.what(), "--resume: " + path + ": there is no m, nor all parts of it");
    }
  }
}

}  // namespace
}  // namespace gradsync::bench
