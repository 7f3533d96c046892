#include "bench/training/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/testing/unreachable_device.h"
#include "comm/testing/errors.h"
#include "model/base/error.h"
#include "model/tensor/random.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Shape;
using model::Tensor;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;

std::string TempFile(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string WriteText(const std::string& name, const std::string& text) {
  std::string path = TempFile(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

struct Tokens {
  std::vector<int32_t> inputs, targets;
  bool operator==(const Tokens&) const = default;
};

Tokens Get(BatchSource& source, int rank, int64_t step, int64_t batch, int64_t seq_len) {
  const model::DevicePtr host = model::CpuDevice();
  const Tensor inputs = Tensor::Empty(host, {batch, seq_len}, DType::kI32);
  const Tensor targets = Tensor::Empty(host, {batch, seq_len}, DType::kI32);
  source.Fill(rank, step, {inputs, targets});
  return {inputs.ToVector<int32_t>(), targets.ToVector<int32_t>()};
}

// Weights of the same seed rise with their words, as tokens do.
TEST(UniformTokensTest, SharesNoWordsWithWeights) {
  constexpr int64_t kNumel = 1024;
  const auto source = UniformTokens(50'000, 7);
  const auto correlation = [](const std::vector<int32_t>& tokens, const std::vector<float>& weights) {
    double sum = 0;
    for (size_t i = 0; i < tokens.size(); ++i) sum += (tokens[i] - 25e3) * weights[i];
    return std::abs(sum) / (1024 * 14.4e3);
  };
  for (uint64_t param = 0; param < 8; ++param) {
    const Tensor weights = Tensor::Empty(model::CpuDevice(), {kNumel}, DType::kF32);
    FillTruncatedNormal(weights, 1, 7, model::StreamOf(model::Purpose::kWeights, param));
    for (int64_t step = 0; step < 4; ++step) {
      const Tokens batch = Get(*source, 0, step, 1, kNumel);
      EXPECT_LT(correlation(batch.inputs, weights.ToVector<float>()), 0.25) << param << " " << step;
      EXPECT_LT(correlation(batch.targets, weights.ToVector<float>()), 0.25) << param << " " << step;
    }
  }
}

TEST(UniformTokensTest, DiffersByRankAndStepButNotByRun) {
  const auto source = UniformTokens(50, 7);
  const Tokens batch = Get(*source, 0, 0, 4, 16);
  for (const int32_t id : batch.inputs) EXPECT_TRUE(id >= 0 && id < 50);
  EXPECT_NE(batch.inputs, batch.targets);
  EXPECT_NE(batch, Get(*source, 1, 0, 4, 16));
  EXPECT_NE(batch, Get(*source, 0, 1, 4, 16));
  EXPECT_EQ(batch, Get(*UniformTokens(50, 7), 0, 0, 4, 16));
  EXPECT_NE(batch, Get(*UniformTokens(50, 8), 0, 0, 4, 16));
}

TEST(CorpusTokensTest, TargetsAreTheBytesAfterTheInputs) {
  std::string text;
  for (int i = 0; i < 250; ++i) text += static_cast<char>(i);
  const auto source = CorpusTokens(WriteText("corpus", text), 256, 8, 1);
  const Tokens batch = Get(*source, 0, 0, 3, 8);
  for (size_t i = 0; i < batch.inputs.size(); ++i) EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
  EXPECT_NE(batch, Get(*source, 1, 0, 3, 8));
  EXPECT_NE(batch, Get(*source, 0, 1, 3, 8));
  EXPECT_EQ(batch, Get(*source, 0, 0, 3, 8));
}

TEST(CorpusTokensTest, WholeFileIsOneWindow) {
  const auto source = CorpusTokens(WriteText("window",
                                             "\xff"
                                             "abc"),
                                   256, 3, 0);
  EXPECT_THAT(Get(*source, 0, 0, 1, 3).inputs, ElementsAre(255, 'a', 'b'));
  EXPECT_THAT(Get(*source, 0, 0, 1, 3).targets, ElementsAre('a', 'b', 'c'));
}

TEST(CorpusTokensTest, BadFilesAreOneClearLine) {
  const std::string path = WriteText("short", "abc");
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { CorpusTokens(path, 256, 3, 0); }),
            "--corpus=" + path +
                ": found 3 bytes, expected at least 4, a sequence of 3 and the "
                "byte after it");
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { CorpusTokens("/nonexistent", 256, 3, 0); }),
            "--corpus=/nonexistent: cannot be read: No such file or directory");
  // The kernel says that a file of sysfs has 4096 bytes, whatever it holds.
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { CorpusTokens("/sys/devices/system/cpu/online", 256, 3, 0); }),
            "--corpus=/sys/devices/system/cpu/online: not all of its 4096 bytes can be read");
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { CorpusTokens(path, 100, 2, 0); }),
            "--corpus=" + path +
                ": the model's vocabulary is 100, expected at least 256, one "
                "id for each byte");
}

TEST(CorpusTokensTest, RanksShareTheSameWindowsHoweverManyTheyAre) {
  std::string text;
  for (int i = 0; i < 250; ++i) text += static_cast<char>(i);
  const auto source = CorpusTokens(WriteText("shared", text), 256, 8, 1);
  const Tokens whole = Get(*source, 0, 5, 6, 8);
  std::vector<int32_t> parts;
  for (int rank = 0; rank < 3; ++rank) {
    const Tokens part = Get(*source, rank, 5, 2, 8);
    parts.insert(parts.end(), part.inputs.begin(), part.inputs.end());
  }
  EXPECT_EQ(parts, whole.inputs);
}

std::pair<std::vector<float>, std::vector<float>> ImagesOf(uint64_t seed, int rank, int64_t step) {
  const Tensor inputs = Tensor::Empty(model::CpuDevice(), {2, 3, 5, 5}, model::DType::kF32);
  const Tensor targets = Tensor::Empty(model::CpuDevice(), {2, 7}, model::DType::kF32);
  UniformImages(seed)->Fill(rank, step, {inputs, targets});
  return {inputs.ToVector<float>(), targets.ToVector<float>()};
}

TEST(UniformImagesTest, FillsBothFromZeroToOne) {
  const auto [inputs, targets] = ImagesOf(0, 0, 0);
  EXPECT_THAT(inputs, Each(AllOf(Ge(0.0F), Lt(1.0F))));
  EXPECT_THAT(targets, Each(AllOf(Ge(0.0F), Lt(1.0F))));
  EXPECT_NE(std::vector<float>(inputs.begin(), inputs.begin() + 14), targets);
}

TEST(UniformImagesTest, ABatchIsAFunctionOfSeedRankAndStep) {
  EXPECT_EQ(ImagesOf(1, 2, 3), ImagesOf(1, 2, 3));
  EXPECT_NE(ImagesOf(1, 2, 3), ImagesOf(2, 2, 3));
  EXPECT_NE(ImagesOf(1, 2, 3), ImagesOf(1, 3, 3));
  EXPECT_NE(ImagesOf(1, 2, 3), ImagesOf(1, 2, 4));
}

using MakeSource = std::function<std::unique_ptr<BatchSource>()>;

Batch BatchOn(const model::DevicePtr& device, const Shape& inputs, const Shape& targets, DType dtype) {
  return {Tensor::Zeros(device, inputs, dtype), Tensor::Zeros(device, targets, dtype)};
}

// A batch in memory that the host cannot touch gets what one on the host gets,
// of every rank and step.
template <class T>
void ExpectTheSameOnAnyDevice(const MakeSource& make, const Shape& inputs, const Shape& targets) {
  const Batch host = BatchOn(model::CpuDevice(), inputs, targets, model::kDTypeOf<T>);
  const Batch there = BatchOn(UnreachableDevice(), inputs, targets, model::kDTypeOf<T>);
  const auto source = make();
  const auto another = make();
  for (const auto& [rank, step] : {std::pair{0, 0}, std::pair{1, 0}, std::pair{1, 7}}) {
    source->Fill(rank, step, host);
    another->Fill(rank, step, there);
    EXPECT_EQ(there.inputs.ToVector<T>(), host.inputs.ToVector<T>());
    EXPECT_EQ(there.targets.ToVector<T>(), host.targets.ToVector<T>());
    EXPECT_NE(there.targets.ToVector<T>(), std::vector<T>(static_cast<size_t>(there.targets.numel()), T{}));
  }
}

TEST(AnyDeviceTest, UniformTokens) {
  ExpectTheSameOnAnyDevice<int32_t>([] { return UniformTokens(100, 3); }, {2, 5}, {2, 5});
}

TEST(AnyDeviceTest, UniformImages) {
  ExpectTheSameOnAnyDevice<float>([] { return UniformImages(3); }, {2, 3, 4, 4}, {2, 10});
}

TEST(AnyDeviceTest, Corpus) {
  const std::string path = testing::TempDir() + "/any_device.txt";
  std::ofstream(path) << "a quick brown fox and what it jumps over";
  ExpectTheSameOnAnyDevice<int32_t>([&] { return CorpusTokens(path, 256, 8, 0); }, {2, 8}, {2, 8});
}

TEST(AnyDeviceTest, ASteadyStepAllocatesNothing) {
  const auto device = UnreachableDevice();
  const Batch batch = BatchOn(device, {2, 5}, {2, 5}, DType::kI32);
  const auto source = UniformTokens(100, 3);
  const auto before = device->allocator().stats().source_allocations;
  for (int64_t step = 0; step < 3; ++step) source->Fill(0, step, batch);
  EXPECT_EQ(device->allocator().stats().source_allocations, before);
}

// The host must not be able to read what the tests above say it did not read.
TEST(UnreachableDeviceTest, MemoryCannotBeTouched) {
  const Tensor tensor = Tensor::Zeros(UnreachableDevice(), {4}, DType::kF32);
  EXPECT_DEATH(static_cast<volatile float*>(tensor.raw_data())[0] = 1, "");
  EXPECT_EQ(tensor.ToVector<float>(), std::vector<float>(4, 0));
}

}  // namespace
}  // namespace gradsync::bench
