#include "bench/training/compare_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr int64_t kMebi = int64_t{1} << 20;

comm::World WorldOf(int size) {
  comm::World world;
  world.size = world.local_size = size;
  return world;
}

CompareOptions Parse(std::vector<const char*> arguments) {
  CompareOptions options;
  FlagTable flags("compare", "");
  options.AddTo(flags);
  arguments.insert(arguments.begin(), "compare");
  flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  CompleteCompareOptions(flags, WorldOf(2), options);
  return options;
}

TEST(CompareOptionsTest, DefaultsAreTheScaledPreset) {
  const CompareOptions options = Parse({});
  EXPECT_THAT(options.strategies, ElementsAre("core", "bucketed_async", "bucketed_sync"));
  EXPECT_EQ(options.model, "resnet50");
  EXPECT_EQ(options.optimizer, "sgd");
  EXPECT_EQ(options.learning_rate, 0.001);
  EXPECT_EQ(options.units, "bytes");
  EXPECT_TRUE(options.interleaved());
  EXPECT_LT(options.image_size, 224);
  // The last size holds all 24.37 Mi elements of the model in one bucket, as in the original.
  EXPECT_EQ(options.buffer_elements.back(), 27 * kMebi);
}

TEST(CompareOptionsTest, ThePublishedPresetIsTheOriginal) {
  const CompareOptions options = Parse({"--preset=published"});
  EXPECT_EQ(options.buffer_elements.size(), 25u);
  EXPECT_EQ(options.buffer_elements.front(), 3 * kMebi);
  EXPECT_EQ(options.buffer_elements.back(), 27 * kMebi);
  EXPECT_EQ(options.batch_size, 32);
  EXPECT_EQ(options.image_size, 224);
  EXPECT_EQ(options.warmup_steps, 20);
  EXPECT_EQ(options.steps, 20);
}

TEST(CompareOptionsTest, FlagsOverrideThePreset) {
  const CompareOptions options =
      Parse({"--batch_size=2", "--preset=published", "--buffer_elements=512Ki,3Mi", "--steps=100"});
  EXPECT_EQ(options.batch_size, 2);
  EXPECT_THAT(options.buffer_elements, ElementsAre(kMebi / 2, 3 * kMebi));
  EXPECT_EQ(options.steps, 100);
  EXPECT_EQ(options.image_size, 224);
}

TEST(CompareOptionsTest, UnitsSayHowElementsBecomeBytes) {
  CompareOptions options = Parse({});
  for (const char* const strategy : {"core", "bucketed_async", "bucketed_sync"}) {
    EXPECT_EQ(BucketBytes(options, strategy, 3 * kMebi), 12 * kMebi) << strategy;
  }
  options.dtype = "f64";
  EXPECT_EQ(BucketBytes(options, "core", 3 * kMebi), 24 * kMebi);
  options.dtype = "bf16";  // of activations; gradients are f32
  EXPECT_EQ(BucketBytes(options, "core", 3 * kMebi), 12 * kMebi);
  options = Parse({"--units=published"});
  EXPECT_EQ(BucketBytes(options, "core", 3 * kMebi), 3 * kMebi);
  EXPECT_EQ(BucketBytes(options, "bucketed_async", 3 * kMebi), 12 * kMebi);
  EXPECT_EQ(BucketBytes(options, "bucketed_sync", 3 * kMebi), 12 * kMebi);
}

// Of an estimate for a batch so large that activations are nearly all of it.
TEST(CompareOptionsTest, EveryModelTakesBF16AndThenNeedsHalfTheActivations) {
  for (const char* const model : {"--model=resnet50", "--model=tiny"}) {
    const auto bytes = [&](const char* dtype) {
      const CompareOptions options =
          Parse({model, dtype, "--batch_size=4096", "--verify=false", "--strategies=naive"});
      return EstimateMemory(options, SizeOfTraining(options), WorldOf(1), 0).host_bytes;
    };
    EXPECT_NEAR(bytes("--dtype=bf16") / bytes("--dtype=f32"), 0.5, 0.05) << model;
  }
}

TEST(CompareOptionsTest, BatchNormsNeedTwoPixels) {
  EXPECT_EQ(Parse({"--batch_size=2", "--image_size=32"}).batch_size, 2);
  EXPECT_EQ(Parse({"--batch_size=1", "--image_size=33"}).batch_size, 1);
  EXPECT_THAT(
      [] {
        Parse({"--batch_size=1", "--image_size=32"});
      },
      ThrowsMessage<InvalidInput>(StartsWith("--batch_size=1: the last layers see one pixel")));
}

TEST(CompareOptionsTest, CountsResNetsParametersExactly) {
  EXPECT_EQ(SizeOfTraining(Parse({})).params, 25557032);
  const CompareOptions narrow = Parse({"--width=8"});
  const model::ResNet model(narrow.resnet_config(), model::CpuDevice(), model::DType::kF32, 0);
  double params = 0;
  for (const model::Parameter* const param : model.parameters())
    params += static_cast<double>(param->numel());
  EXPECT_EQ(SizeOfTraining(narrow).params, params);
}

// What a forward pass really leaves behind.
TEST(CompareOptionsTest, EstimatesWhatAForwardPassKeeps) {
  const CompareOptions options = Parse({"--width=8", "--image_size=64", "--batch_size=2"});
  const model::DevicePtr device = model::CpuDevice();
  model::ResNet model(options.resnet_config(), device, model::DType::kF32, 0);
  const model::Tensor images = model::Tensor::Zeros(device, {2, 3, 64, 64}, model::DType::kF32);
  const int64_t before = device->allocator().stats().bytes_in_use;
  const model::Var out = model.Predict(images);
  const auto kept = static_cast<double>(device->allocator().stats().bytes_in_use - before);
  EXPECT_NEAR(4 * SizeOfTraining(options).activations / kept, 1, 0.15);
}

TEST(CompareOptionsTest, LanguageModelsHaveSequences) {
  const CompareOptions options = Parse({"--model=tiny", "--seq_len=32"});
  EXPECT_EQ(options.transformer_config().context_length, 32);
  EXPECT_EQ(SizeOfTraining(options).params, static_cast<double>(NumParameters(options.transformer_config())));
}

TEST(CompareOptionsTest, PeersNeedMemoryToo) {
  for (const char* const model : {"--model=resnet50", "--model=tiny"}) {
    EXPECT_THAT(SizeOfTraining(Parse({model})).peers, testing::IsEmpty());
    EXPECT_THAT(SizeOfTraining(Parse({model, "--with_peers=pytorch"})).peers, ElementsAre("ddp_view", "ddp"));
  }
  EXPECT_THAT(
      [] {
        Parse({"--with_peers=pytorch", "--dtype=f64"});
      },
      ThrowsMessage<InvalidInput>(StartsWith("--dtype=f64: --with_peers takes f32 or bf16")));
}

}  // namespace
}  // namespace gradsync::bench
