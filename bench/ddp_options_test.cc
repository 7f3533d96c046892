#include "bench/ddp_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/ddp_memory.h"
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
  // parameter.
  DdpOptions options = Parse({"--model=small", "--strategies=naive", "--batch_size=1", "--seq_len=1"});
  options.verify = false;
  const double params = static_cast<double>(NumParameters(options.model_config()));
  EXPECT_NEAR(EstimateMemoryBytes(options, SizeOfTraining(options), WorldOf(2)), 2 * 16 * params,
              0.1 * 2 * 16 * params);
  options.strategies = {"flat", "core"};
  EXPECT_NEAR(EstimateMemoryBytes(options, SizeOfTraining(options), WorldOf(2)), 2 * 24 * params,
              0.1 * 2 * 24 * params);
  options.order = "blocks";
  EXPECT_NEAR(EstimateMemoryBytes(options, SizeOfTraining(options), WorldOf(2)), 2 * 20 * params,
              0.1 * 2 * 20 * params);
  options.verify = true;
  EXPECT_NEAR(EstimateMemoryBytes(options, SizeOfTraining(options), WorldOf(2)), (2 * 20 + 12) * params,
              0.1 * 2 * 20 * params);
}

TEST(MemoryTest, OnlyTheRanksOfThisHostCount) {
  DdpOptions options = Parse({"--model=small", "--verify=false"});
  comm::World world = WorldOf(8);
  const double of_eight = EstimateMemoryBytes(options, SizeOfTraining(options), world);
  world.local_size = 2;
  EXPECT_NEAR(EstimateMemoryBytes(options, SizeOfTraining(options), world), of_eight / 4, 1e-6 * of_eight);
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
