#include "bench/training/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/training/test_options.h"
#include "comm/testing/errors.h"
#include "model/autograd.h"
#include "model/base/error.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr int64_t kMebi = int64_t{1} << 20;

// The batch is so large that activations are nearly all of the estimate.
TEST(MemoryTest, EveryModelTakesBF16AndThenNeedsHalfTheActivations) {
  for (const char* const model : {"--model=resnet50", "--model=tiny"}) {
    const auto bytes = [&](const char* dtype) {
      const TrainingPlan options =
          Parse({model, dtype, "--batch_size=4096", "--verify=false", "--strategies=naive"});
      return EstimateMemory(options, WorldOf(1), 0).host_bytes;
    };
    EXPECT_NEAR(bytes("--dtype=bf16") / bytes("--dtype=f32"), 0.5, 0.05) << model;
  }
}

TEST(MemoryTest, CountsResNetsParametersExactly) {
  EXPECT_EQ(Parse({"--model=resnet50"}).Size().params, 25557032);
  const TrainingPlan narrow = Parse({"--model=resnet50", "--width=8"});
  const model::ResNet model(narrow.resnet_config(), model::CpuDevice(), model::DType::kF32, 0);
  double params = 0;
  for (const model::Parameter* const param : model.parameters())
    params += static_cast<double>(param->numel());
  EXPECT_EQ(narrow.Size().params, params);
}

// What a forward pass really leaves behind.
TEST(MemoryTest, EstimatesWhatAForwardPassKeeps) {
  const TrainingPlan options = Parse({"--model=resnet50", "--width=8", "--image_size=64", "--batch_size=2"});
  const model::DevicePtr device = model::CpuDevice();
  model::ResNet model(options.resnet_config(), device, model::DType::kF32, 0);
  const model::Tensor images = model::Tensor::Zeros(device, {2, 3, 64, 64}, model::DType::kF32);
  const int64_t before = device->allocator().stats().bytes_in_use;
  const model::Var out = model.Predict(images);
  const auto kept = static_cast<double>(device->allocator().stats().bytes_in_use - before);
  EXPECT_NEAR(4 * options.Size().activations / kept, 1, 0.15);
}

// At most, when the loss's gradient is there too: logits twice.
TEST(MemoryTest, EstimatesWhatABackwardPassTakes) {
  const TrainingPlan options = Parse(
      {"--d_model=16", "--d_ff=32", "--num_layers=1", "--num_heads=2", "--seq_len=64", "--batch_size=4"});
  const model::DevicePtr device = model::CpuDevice();
  model::Transformer model(options.transformer_config(), device, model::DType::kF32, 0);
  for (model::Parameter* const param : model.parameters()) param->grad();
  const model::Tensor ids = model::Tensor::Zeros(device, {4, 64}, model::DType::kI32);
  const size_t before = device->allocator().stats().bytes_in_use;
  Backward(model.Loss({ids, ids}), model.parameters());
  const auto most = static_cast<double>(device->allocator().stats().peak_bytes_in_use - before);
  EXPECT_NEAR(4 * options.Size().activations / most, 1, 0.15);
}

// Activations are negligible here.
TEST(MemoryTest, CountsWhatEveryRankHolds) {
  const auto expect_bytes = [&](double per_param, std::vector<const char*> flags) {
    flags.insert(flags.end(), {"--model=small", "--batch_size=1", "--seq_len=1"});
    const TrainingPlan options = Parse(flags);
    const double params = static_cast<double>(NumParameters(options.transformer_config()));
    const TrainingMemory memory = EstimateMemory(options, WorldOf(2), 0);
    EXPECT_NEAR(memory.host_bytes, per_param * params, 0.05 * per_param * params + 2 * (64 << 20));
    EXPECT_EQ(memory.gpu_bytes, 0);
  };
  // Values, gradients and two moments on both ranks, 16 bytes for each parameter, and rank 0's initial
  // values, where training starts again.
  expect_bytes(2 * 16, {"--strategies=naive", "--verify=false"});
  // Buffers add what the strategies' traits say.
  expect_bytes(2 * 24 + 4, {"--strategies=flat,core", "--verify=false"});
  expect_bytes(2 * 32 + 4, {"--strategies=flat,core", "--backend=gloo,shm", "--verify=false"});
  expect_bytes(2 * 20 + 4, {"--strategies=flat,core", "--order=blocks", "--verify=false"});
  // Error memory, and the values and indices of both ranks.
  expect_bytes(2 * (16 + 4 + 2 * 8), {"--variants=topk:percent=100", "--verify=false"});
  // To verify, gradients and values again on both.
  expect_bytes(2 * 20 + 4 + 2 * 8, {"--strategies=flat,core", "--order=blocks"});
  // A copy of the values in bf16.
  expect_bytes(2 * 22 + 4 + 2 * 8, {"--strategies=flat,core", "--order=blocks", "--dtype=bf16"});
}

// A rank that trains one variant alone: 16 bytes for each parameter, of which halves are sharded, buffers and
// a program.
TEST(MemoryTest, ComparesVariantsWithWhatARankMayTake) {
  const TrainingPlan options =
      Parse({"--model=small", "--batch_size=1", "--seq_len=1", "--verify=false",
             "--variants=core,zero1,zero1@shm,zero1:gather=forward,zero3,zero3:keep=1"});
  const double params = static_cast<double>(NumParameters(options.transformer_config()));
  const auto per_param = [&](size_t i) {
    return (EstimateRank(options, options.variants.at(i), WorldOf(2), 0) * 16 / 17 - (64 << 20)) / params;
  };
  EXPECT_NEAR(per_param(0), 16, 0.1);
  EXPECT_NEAR(per_param(1), 4 + 4 + 4, 0.1);
  EXPECT_NEAR(per_param(2), 4 + 4 + 4 + 4, 0.1);
  EXPECT_NEAR(per_param(3), 4 + 4 + 4, 0.1);
  // Parts of all four, two units of gradients and two or all of weights; each unit has a seventeenth.
  EXPECT_NEAR(per_param(4), 8 + 4 * (3 + 3) / 16.8, 0.5);
  EXPECT_NEAR(per_param(5), 8 + 4 + 4 * 3 / 16.8, 0.5);
  EXPECT_THAT(DescribeEstimates(options, WorldOf(2), 0), ::testing::HasSubstr("zero3:keep=1@gloo"));
  // A program that is larger than was thought, beside buffers of 32 MiB.
  const auto with_program = [&](int64_t bytes) {
    return EstimateRank(options, options.variants.at(0), WorldOf(2), bytes);
  };
  EXPECT_EQ(with_program(30 * kMebi), with_program(0));
  EXPECT_EQ(with_program(180 * kMebi) - with_program(0), (180 + 32 - 64) * kMebi);
  // Each of four ranks on two hosts has half of the state; each host has one copy of the weights.
  const TrainingPlan within = Parse({"--model=small", "--batch_size=1", "--seq_len=1", "--verify=false",
                                     "--variants=zero1:within=host@hierarchical"});
  comm::World hosts = WorldOf(4);
  hosts.local_size = 2;
  const double of_rank = EstimateRank(within, within.variants.front(), hosts, 0);
  EXPECT_NEAR((of_rank * 16 / 17 - (64 << 20)) / params, 4 + 4 + 4 + 4, 0.1);
}

// They add up to whole gradients, unless each pass is reduced to parts.
TEST(MemoryTest, CountsGradientsOfEarlierPasses) {
  const auto more_per_param = [](const char* variants) {
    const auto bytes = [&](const char* passes) {
      const TrainingPlan options =
          Parse({"--model=small", "--batch_size=1", "--seq_len=1", "--verify=false", variants, passes});
      return EstimateMemory(options, WorldOf(2), 0).host_bytes / options.Size().params;
    };
    return bytes("--accumulation_steps=4") - bytes("--accumulation_steps=1");
  };
  EXPECT_NEAR(more_per_param("--variants=zero2"), 2 * 4, 0.01);
  EXPECT_NEAR(more_per_param("--variants=zero2:accumulate_parts=1"), 0, 0.01);
  EXPECT_NEAR(more_per_param("--variants=zero1"), 0, 0.01);
}

TEST(MemoryTest, WhatDoesNotFitIsInBrackets) {
  const TrainingPlan options =
      Parse({"--batch_size=1", "--seq_len=1", "--variants=core,zero3", "--max_memory=2GiB"});
  const auto estimates = [&](int64_t program_bytes) {
    return DescribeEstimates(options, WorldOf(2), program_bytes);
  };
  // By model.
  EXPECT_THAT(estimates(0), ContainsRegex("core@gloo +[0-9]+ MiB +\\(2[.0-9]* GiB\\)"));
  EXPECT_THAT(estimates(0), ContainsRegex("zero3@gloo +[0-9]+ MiB +1[.0-9]* GiB +\\("));
  // What the program has already taken counts.
  EXPECT_THAT(estimates(1024 * kMebi), ContainsRegex("zero3@gloo +[0-9.]+ GiB +\\(2[.0-9]* GiB\\)"));
  for (const std::string flag : {"--order=blocks", "--seed=3", "--learning_rate=1"}) {
    EXPECT_EQ(RefusalOf({"--max_memory=3GiB", flag.c_str()}),
              flag.substr(0, flag.find('=')) + ": has no effect with --max_memory");
  }
  EXPECT_EQ(RefusalOf({"--max_memory=3GiB", "--model=small"}),
            "--model: has no effect with --max_memory, which is about all transformers");
  EXPECT_TRUE(Parse({"--max_memory=3GiB", "--model=resnet50", "--width=8"}).max_memory.has_value());
}

// The largest unit is that of the models themselves: a block, or the head with a large vocabulary; a stage.
TEST(MemoryTest, KnowsTheLargestUnitOfAModel) {
  const auto largest_of = [](const model::Model& model) {
    double largest = 0, all = 0;
    for (const std::vector<model::Parameter*>& unit : model.units()) {
      double numel = 0;
      for (const model::Parameter* const param : unit) numel += static_cast<double>(param->numel());
      largest = std::max(largest, numel);
      all += numel;
    }
    return largest / all;
  };
  for (const char* const flag : {"--vocab_size=20", "--vocab_size=5000", "--d_ff=7"}) {
    const TrainingPlan options =
        Parse({"--model=tiny", "--num_layers=2", "--d_model=16", "--num_heads=2", flag});
    const model::Transformer model(options.transformer_config(), model::CpuDevice(), model::DType::kF32, 1);
    EXPECT_DOUBLE_EQ(options.Size().largest_unit, largest_of(model)) << flag;
  }
  for (const char* const width : {"--width=8", "--width=32"}) {
    const TrainingPlan options = Parse({"--model=resnet50", width, "--image_size=32"});
    const model::ResNet model(options.resnet_config(), model::CpuDevice(), model::DType::kF32, 1);
    EXPECT_DOUBLE_EQ(options.Size().largest_unit, largest_of(model)) << width;
  }
}

TEST(MemoryTest, OnlyTheRanksOfThisHostCount) {
  const TrainingPlan options = Parse({"--model=small", "--verify=false"});
  comm::World world = WorldOf(8);
  const auto bytes = [&](const comm::World& of) { return EstimateMemory(options, of, 0).host_bytes; };
  const double of_eight = bytes(world);
  world.local_size = 2;
  const double of_two = bytes(world);
  world.local_size = 1;
  EXPECT_NEAR(of_eight - of_two, 6 * (of_two - bytes(world)), 1e-6 * of_eight);
}

// PyTorch in turn with gradsync: 12 bytes for values and the optimizer's state, 4 for the gradients of none,
// naive and overlap, 8 more for flat's copies, 8 for the gradients and buckets of DistributedDataParallel, 4
// where they are the same.
TEST(MemoryTest, CountsPeers) {
  const auto peers_bytes = [](const char* strategies, const char* modes = "--peer_modes=eager") {
    const auto bytes = [&](std::vector<const char*> flags) {
      flags.insert(flags.end(), {"--model=small", strategies, "--batch_size=1", "--seq_len=1"});
      return EstimateMemory(Parse(flags), WorldOf(2), 0).host_bytes;
    };
    const double params = static_cast<double>(NumParameters(Parse({"--model=small"}).transformer_config()));
    return (bytes({"--with_peers=pytorch", modes}) - bytes({})) / params;
  };
  constexpr double kSlack = 8;  // two interpreters, activations
  EXPECT_NEAR(peers_bytes("--strategies=naive"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=naive,overlap"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=core"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=bucketed_async"), 2 * 20, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=none,flat,core,bucketed_async"), 2 * (12 + 4 + 8 + 8 + 4), kSlack);
  // Compiled and not, whose weights and gradients are the same but for those in buckets.
  EXPECT_NEAR(peers_bytes("--strategies=naive", "--peer_modes=eager,compiled"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=bucketed_async", "--peer_modes=eager,compiled"), 2 * (12 + 8 + 8),
              kSlack);
}

// On a GPU there is what computes; on the host what is kept to start again and to compare with.
TEST(MemoryTest, OfAGpu) {
  TrainingPlan options = Parse({"--model=small", "--strategies=core", "--batch_size=1", "--seq_len=1"});
  options.ranks.device = model::Device::Type::kCuda;
  const double params = static_cast<double>(NumParameters(options.transformer_config()));
  const auto memory = [&](int num_gpus) { return EstimateMemory(options, WorldOf(2), num_gpus); };
  constexpr double kContext = 512 << 20;
  EXPECT_NEAR(memory(1).gpu_bytes, 2 * 20 * params + 2 * kContext, params);
  EXPECT_NEAR(memory(2).gpu_bytes, 20 * params + kContext, params);
  EXPECT_NEAR(memory(2).host_bytes, 20 * params, 2 * params);

  constexpr int64_t kGiB = 1 << 30;
  const auto line = [&](const MemoryLimits& limits) {
    return comm::ErrorOf<TooLittleMemory>([&] { CheckMemory(limits, options, WorldOf(2)); });
  };
  EXPECT_EQ(line({.host_bytes = 8 * kGiB, .gpu_bytes = 8 * kGiB, .num_gpus = 1}), "no error");
  EXPECT_THAT(
      line({.host_bytes = 8 * kGiB, .gpu_bytes = 4 * kGiB, .num_gpus = 1}),
      StartsWith("--model=small: 2 ranks need about 5.79 GiB on each GPU, 4.00 GiB are there; fewer "));
  EXPECT_THAT(
      line({.host_bytes = 8 * kGiB, .gpu_bytes = 2 * kGiB, .num_gpus = 2}),
      StartsWith("--model=small: 1 rank needs about 2.90 GiB on each GPU, 2.00 GiB are there; fewer "));
  EXPECT_THAT(line({.host_bytes = kGiB, .gpu_bytes = 8 * kGiB, .num_gpus = 1}),
              testing::MatchesRegex("--model=small: 2 ranks need about 2... GiB on this host, 1.00 GiB are "
                                    "available; .*"));
}

// At the peak of a step of xl on an H200 gradsync had 58.3 GiB and PyTorch 62.1, beside their contexts; both
// fit into its 139.8.
TEST(MemoryTest, OfAPeerInBF16) {
  const auto gibibytes = [](const char* peers) {
    TrainingPlan options = Parse({"--model=xl", "--batch_size=8", "--seq_len=1024", "--dtype=bf16",
                                  "--strategies=none", "--verify=false", peers});
    options.ranks.device = model::Device::Type::kCuda;
    return EstimateMemory(options, WorldOf(1), 1).gpu_bytes / (1 << 30);
  };
  EXPECT_NEAR(gibibytes("--with_peers=none"), 58.3, 3);
  EXPECT_GT(gibibytes("--with_peers=pytorch"), 58.3 + 62.1 + 1);
  EXPECT_LT(gibibytes("--with_peers=pytorch"), 139.8);
}

TEST(MemoryTest, SaysWhatWouldHelp) {
  const TrainingPlan small = Parse({"--num_layers=1"});
  CheckMemoryOfThisHost(small, WorldOf(1));
  const TrainingPlan large = Parse({"--model=2.7b", "--batch_size=4096"});
  EXPECT_THAT([&] { CheckMemoryOfThisHost(large, WorldOf(1024)); },
              ThrowsMessage<TooLittleMemory>(StartsWith("--model=2.7b: 1024 ranks need about ")));
}

}  // namespace
}  // namespace gradsync::bench
