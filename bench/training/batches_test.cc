#include "bench/training/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/testing/unreachable_device.h"
#include "comm/testing/errors.h"
#include "model/error.h"
#include "model/safetensors.h"

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
using ::testing::HasSubstr;
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
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { CorpusTokens(path, 100, 2, 0); }),
            "--corpus=" + path +
                ": the model's vocabulary is 100, expected at least 256, one "
                "id for each byte");
}

template <class T>
Tensor Ids(model::Shape shape, std::vector<T> ids) {
  return Tensor::From<T>(model::CpuDevice(), std::move(shape), ids);
}

std::string WriteBatch(const std::string& name, const Tensor& inputs, const Tensor& targets) {
  std::string path = TempFile(name);
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"inputs", inputs}, {"targets", targets}};
  model::WriteSafetensors(path, tensors);
  return path;
}

TEST(BatchFileTokensTest, EveryRankGetsItsRowsInEveryStep) {
  const std::string path = WriteBatch("batch", Ids<int64_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}),
                                      Ids<int32_t>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ReadBatchFileShape(path, 2), (Shape{4, 2}));
  const auto source = BatchFileTokens(path, 9, 2);
  EXPECT_THAT(Get(*source, 0, 0, 2, 2).inputs, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Get(*source, 1, 5, 2, 2).inputs, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Get(*source, 1, 5, 2, 2).targets, ElementsAre(5, 6, 7, 8));
}

TEST(BatchFileTokensTest, BadFilesAreOneClearLine) {
  const Tensor ids = Ids<int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  const std::string path = WriteBatch("three_rows", ids, ids);
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { BatchFileTokens(path, 9, 2); }),
            "--batch_file=" + path + ": found 3 rows, expected a multiple of the 2 ranks");
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { BatchFileTokens(path, 5, 3); }),
            "--batch_file=" + path + ": inputs holds the id 5, expected ids from 0 to 4");

  const std::string shapes = WriteBatch("shapes", ids, Ids<int32_t>({2, 3}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { ReadBatchFileShape(shapes, 1); }),
            "--batch_file=" + shapes + ": inputs have shape (3, 2) but targets (2, 3)");
  const std::string flat = WriteBatch("flat", Ids<int32_t>({6}, {0, 1, 2, 3, 4, 5}), ids);
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { ReadBatchFileShape(flat, 1); }),
            "--batch_file=" + flat + ": inputs has shape (6), expected (rows, seq)");
  const std::string floats = WriteBatch("floats", Ids<float>({1, 2}, {0, 1}), ids);
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { ReadBatchFileShape(floats, 1); }),
            "--batch_file=" + floats + ": inputs is f32, expected i32 or i64");

  const std::string other = TempFile("other");
  model::WriteSafetensors(other, std::vector<std::pair<std::string, Tensor>>{{"inputs", ids}});
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([&] { ReadBatchFileShape(other, 1); }),
            "--batch_file=" + other + ": there is no tensor targets, expected inputs and targets");
  EXPECT_THAT(
      comm::ErrorOf<InvalidInput>([&] { ReadBatchFileShape(WriteText("text", "no safetensors"), 1); }),
      HasSubstr("/text"));
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

TEST(AnyDeviceTest, BatchFile) {
  const std::string path = testing::TempDir() + "/any_device.safetensors";
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  const Tensor rows = Tensor::From<int32_t>(model::CpuDevice(), {4, 2}, ids);
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"inputs", rows}, {"targets", rows}};
  model::WriteSafetensors(path, tensors);
  ExpectTheSameOnAnyDevice<int32_t>([&] { return BatchFileTokens(path, 10, 2); }, {2, 2}, {2, 2});
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
