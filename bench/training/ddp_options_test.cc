#include "bench/training/ddp_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/training/ddp_memory.h"
#include "ddp/factory.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAreArray;
using ::testing::StartsWith;

comm::World WorldOf(int size) {
  comm::World world;
  world.size = world.local_size = size;
  return world;
}

DdpOptions Parse(std::vector<const char*> arguments) {
  DdpOptions options;
  FlagTable flags("ddp", "");
  options.AddTo(flags);
  arguments.insert(arguments.begin(), "ddp");
  flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  CompleteDdpOptions(flags, WorldOf(2), options);
  return options;
}

TEST(DdpOptionsTest, DefaultsAreASmallRunOfAllStrategies) {
  const DdpOptions options = Parse({});
  EXPECT_THAT(options.strategies, ElementsAreArray(ddp::StrategyNames()));
  EXPECT_TRUE(options.interleaved());
  EXPECT_EQ(options.model_config().d_model, 256);
  EXPECT_EQ(options.ranks.world_size, 2);
  EXPECT_EQ(Cells(options).size(), 1u);
}

TEST(DdpOptionsTest, OverridesReplaceTheModelsSizes) {
  const model::TransformerConfig config =
      Parse({"--model=small", "--num_layers=2", "--d_ff=100", "--vocab_size=300"}).model_config();
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.d_ff, 100);
  EXPECT_EQ(config.vocab_size, 300);
  EXPECT_EQ(config.d_model, 768);
}

TEST(DdpOptionsTest, CellsAreEveryCombination) {
  const DdpOptions options = Parse({"--batch_size=2,4", "--seq_len=128,256,512"});
  const std::vector<Cell> cells = Cells(options);
  ASSERT_EQ(cells.size(), 6u);
  EXPECT_EQ(cells[1].batch_size, 2);
  EXPECT_EQ(cells[1].seq_len, 256);
  EXPECT_EQ(cells[5].batch_size, 4);
  EXPECT_EQ(cells[5].seq_len, 512);
  EXPECT_EQ(options.model_config().context_length, 512);
}

TEST(MemoryTest, CountsWhatEveryRankHolds) {
  // Without activations to speak of: values, gradients and two moments on both ranks, 16 bytes for each
  // parameter, and rank 0's initial values.
  DdpOptions options = Parse({"--model=small", "--strategies=naive", "--batch_size=1", "--seq_len=1"});
  options.verify = false;
  const double params = static_cast<double>(NumParameters(options.model_config()));
  const auto expect_bytes = [&](double per_param) {
    const TrainingMemory memory = EstimateMemory(options, SizeOfTraining(options), WorldOf(2), 0);
    EXPECT_NEAR(memory.host_bytes, per_param * params, 0.05 * per_param * params + 2 * (64 << 20));
    EXPECT_EQ(memory.gpu_bytes, 0);
  };
  expect_bytes(2 * 16 + 4);
  options.strategies = {"flat", "core"};
  expect_bytes(2 * 24 + 4);
  options.order = "blocks";
  expect_bytes(2 * 20 + 4);
  options.verify = true;
  expect_bytes(2 * 20 + 12);
  options.dtype = "bf16";  // a copy of the values in it
  expect_bytes(2 * 22 + 12);
}

TEST(MemoryTest, OnlyTheRanksOfThisHostCount) {
  DdpOptions options = Parse({"--model=small", "--verify=false"});
  comm::World world = WorldOf(8);
  const auto bytes = [&](const comm::World& of) {
    return EstimateMemory(options, SizeOfTraining(options), of, 0).host_bytes;
  };
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
  const auto peers_bytes = [](const char* strategies, std::vector<std::string> modes = {"eager"}) {
    DdpOptions options = Parse({"--model=small", strategies, "--batch_size=1", "--seq_len=1"});
    const auto bytes = [&] {
      return EstimateMemory(options, SizeOfTraining(options), WorldOf(2), 0).host_bytes;
    };
    const double alone = bytes();
    options.peers.with_peers = "pytorch";
    options.peers.modes = std::move(modes);
    return (bytes() - alone) / static_cast<double>(NumParameters(options.model_config()));
  };
  constexpr double kSlack = 8;  // two interpreters, activations
  EXPECT_NEAR(peers_bytes("--strategies=naive"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=naive,overlap"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=core"), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=bucketed_sync"), 2 * 20, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=none,flat,core,bucketed_sync"), 2 * (12 + 4 + 8 + 8 + 4), kSlack);
  // Compiled and not, whose weights and gradients are the same but for those in buckets.
  EXPECT_NEAR(peers_bytes("--strategies=naive", {"eager", "compiled"}), 2 * 16, kSlack);
  EXPECT_NEAR(peers_bytes("--strategies=bucketed_sync", {"eager", "compiled"}), 2 * (12 + 8 + 8), kSlack);
}

// On a GPU there is what computes; on the host what is kept to start again and to compare with.
TEST(MemoryTest, OfAGpu) {
  DdpOptions options = Parse({"--model=small", "--strategies=core", "--batch_size=1", "--seq_len=1"});
  options.ranks.device = "cuda";
  const double params = static_cast<double>(NumParameters(options.model_config()));
  const auto memory = [&](int num_gpus) {
    return EstimateMemory(options, SizeOfTraining(options), WorldOf(2), num_gpus);
  };
  constexpr double kContext = 512 << 20;
  EXPECT_NEAR(memory(1).gpu_bytes, 2 * 20 * params + 2 * kContext, params);
  EXPECT_NEAR(memory(2).gpu_bytes, 20 * params + kContext, params);
  EXPECT_NEAR(memory(2).host_bytes, 12 * params, 2 * params);

  constexpr int64_t kGiB = 1 << 30;
  const auto line = [&](const MemoryLimits& limits) {
    return TooLargeFor(limits, options, SizeOfTraining(options), WorldOf(2)).value_or("none");
  };
  EXPECT_EQ(line({.host_bytes = 8 * kGiB, .gpu_bytes = 8 * kGiB, .num_gpus = 1}), "none");
  EXPECT_THAT(
      line({.host_bytes = 8 * kGiB, .gpu_bytes = 4 * kGiB, .num_gpus = 1}),
      StartsWith("--model=small: 2 ranks need about 5.79 GiB on each GPU, 4.00 GiB are there; fewer "));
  EXPECT_THAT(
      line({.host_bytes = 8 * kGiB, .gpu_bytes = 2 * kGiB, .num_gpus = 2}),
      StartsWith("--model=small: 1 rank needs about 2.90 GiB on each GPU, 2.00 GiB are there; fewer "));
  EXPECT_THAT(
      line({.host_bytes = kGiB, .gpu_bytes = 8 * kGiB, .num_gpus = 1}),
      StartsWith("--model=small: 2 ranks need about 1.56 GiB on this host, 1.00 GiB are available; "));
}

TEST(MemoryTest, SaysWhatWouldHelp) {
  const DdpOptions small = Parse({"--num_layers=1"});
  EXPECT_EQ(TooLargeForThisHost(small, SizeOfTraining(small), WorldOf(1)), std::nullopt);
  const DdpOptions large = Parse({"--model=2.7b", "--batch_size=4096"});
  const auto line = TooLargeForThisHost(large, SizeOfTraining(large), WorldOf(1024));
  ASSERT_TRUE(line.has_value());
  EXPECT_THAT(*line, StartsWith("--model=2.7b: 1024 ranks need about "));
}

}  // namespace
}  // namespace gradsync::bench
