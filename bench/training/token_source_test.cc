#include "bench/training/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <utility>
#include <vector>

#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TempFile(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string WriteText(const std::string& name, const std::string& text) {
  const std::string path = TempFile(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

struct Batch {
  std::vector<int32_t> inputs, targets;
  bool operator==(const Batch&) const = default;
};

Batch Get(BatchSource& source, int rank, int64_t step, int64_t batch, int64_t seq_len) {
  const model::DevicePtr host = model::CpuDevice();
  const Tensor inputs = Tensor::Empty(host, {batch, seq_len}, DType::kI32);
  const Tensor targets = Tensor::Empty(host, {batch, seq_len}, DType::kI32);
  source.Fill(rank, step, inputs, targets);
  return {inputs.ToVector<int32_t>(), targets.ToVector<int32_t>()};
}

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(UniformTokensTest, DiffersByRankAndStepButNotByRun) {
  const auto source = UniformTokens(50, 7);
  const Batch batch = Get(*source, 0, 0, 4, 16);
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
  const Batch batch = Get(*source, 0, 0, 3, 8);
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
  EXPECT_EQ(
      ErrorOf([&] { CorpusTokens(path, 256, 3, 0); }),
      "--corpus=" + path + ": found 3 bytes, expected at least 4, a sequence of 3 and the byte after it");
  EXPECT_EQ(ErrorOf([&] { CorpusTokens("/nonexistent", 256, 3, 0); }),
            "--corpus=/nonexistent: cannot be read: No such file or directory");
  EXPECT_EQ(
      ErrorOf([&] { CorpusTokens(path, 100, 2, 0); }),
      "--corpus=" + path + ": the model's vocabulary is 100, expected at least 256, one id for each byte");
}

template <class T>
Tensor Ids(model::Shape shape, std::vector<T> ids) {
  return Tensor::From<T>(model::CpuDevice(), std::move(shape), ids);
}

std::string WriteBatch(const std::string& name, const Tensor& inputs, const Tensor& targets) {
  const std::string path = TempFile(name);
  const std::vector<std::pair<std::string, Tensor>> tensors = {{"inputs", inputs}, {"targets", targets}};
  model::WriteSafetensors(path, tensors);
  return path;
}

TEST(BatchFileTokensTest, EveryRankGetsItsRowsInEveryStep) {
  const std::string path = WriteBatch("batch", Ids<int64_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}),
                                      Ids<int32_t>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ReadBatchFileShape(path).rows, 4);
  EXPECT_EQ(ReadBatchFileShape(path).seq_len, 2);
  const auto source = BatchFileTokens(path, 9, 2);
  EXPECT_THAT(Get(*source, 0, 0, 2, 2).inputs, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Get(*source, 1, 5, 2, 2).inputs, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(Get(*source, 1, 5, 2, 2).targets, ElementsAre(5, 6, 7, 8));
}

TEST(BatchFileTokensTest, BadFilesAreOneClearLine) {
  const Tensor ids = Ids<int32_t>({3, 2}, {0, 1, 2, 3, 4, 5});
  const std::string path = WriteBatch("three_rows", ids, ids);
  EXPECT_EQ(ErrorOf([&] { BatchFileTokens(path, 9, 2); }),
            "--batch_file=" + path + ": found 3 rows, expected a multiple of the 2 ranks");
  EXPECT_EQ(ErrorOf([&] { BatchFileTokens(path, 5, 3); }),
            "--batch_file=" + path + ": inputs holds the id 5, expected ids from 0 to 4");

  const std::string shapes = WriteBatch("shapes", ids, Ids<int32_t>({2, 3}, {0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ErrorOf([&] { ReadBatchFileShape(shapes); }),
            "--batch_file=" + shapes + ": inputs have shape (3, 2) but targets (2, 3)");
  const std::string flat = WriteBatch("flat", Ids<int32_t>({6}, {0, 1, 2, 3, 4, 5}), ids);
  EXPECT_EQ(ErrorOf([&] { ReadBatchFileShape(flat); }),
            "--batch_file=" + flat + ": inputs has shape (6), expected (rows, seq)");
  const std::string floats = WriteBatch("floats", Ids<float>({1, 2}, {0, 1}), ids);
  EXPECT_EQ(ErrorOf([&] { ReadBatchFileShape(floats); }),
            "--batch_file=" + floats + ": inputs is f32, expected i32 or i64");

  const std::string other = TempFile("other");
  model::WriteSafetensors(other, std::vector<std::pair<std::string, Tensor>>{{"inputs", ids}});
  EXPECT_EQ(ErrorOf([&] { ReadBatchFileShape(other); }),
            "--batch_file=" + other + ": there is no tensor targets, expected inputs and targets");
  EXPECT_THAT(ErrorOf([&] { ReadBatchFileShape(WriteText("text", "no safetensors")); }), HasSubstr("/text"));
}

}  // namespace
}  // namespace gradsync::bench
