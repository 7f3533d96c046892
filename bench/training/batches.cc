#include "bench/training/batches.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "model/base/error.h"
#include "model/tensor/random.h"

namespace gradsync::bench {
namespace {

using model::Tensor;

// Makes random batches. `fill` fills a tensor with the random numbers of a stream with a seed.
class Uniform : public BatchSource {
 public:
  using FillTensor = std::function<void(const Tensor& tensor, uint64_t stream)>;
  explicit Uniform(FillTensor fill) : fill_(std::move(fill)) {}

 private:
  void FillOnHost(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const uint64_t stream = model::StreamOf(
        model::Purpose::kBatches, (static_cast<uint64_t>(rank) << 40 | static_cast<uint64_t>(step)) << 1);
    fill_(inputs, stream);
    fill_(targets, stream + 1);
  }

  const FillTensor fill_;
};

// Makes batches of windows at random positions of a text.
class Windows : public BatchSource {
 public:
  Windows(std::string text, uint64_t seed) : text_(std::move(text)), seed_(seed) {}

 private:
  void FillOnHost(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const int64_t seq_len = inputs.dim(1);
    for (int64_t row = 0; row < inputs.dim(0); ++row) {
      const std::span<const char> from_here =
          std::span(text_).subspan(WindowOffset(step, rank * inputs.dim(0) + row, seq_len));
      FillRow(from_here.first(static_cast<size_t>(seq_len) + 1), row, {inputs, targets});
    }
  }

  // `row` counts the rows of all ranks' batches, one after the other.
  size_t WindowOffset(int64_t step, int64_t row, int64_t seq_len) const {
    const std::array<uint32_t, 4> words =
        model::RandomWords(seed_, model::StreamOf(model::Purpose::kBatches, static_cast<uint64_t>(step)),
                           static_cast<uint64_t>(row));
    const uint64_t random = static_cast<uint64_t>(words[0]) << 32 | words[1];
    return random % (text_.size() - static_cast<size_t>(seq_len));
  }

  const std::string text_;
  const uint64_t seed_;
};

}  // namespace

model::Batch BatchShape::NewBatch(const model::DevicePtr& device) const {
  return {Tensor::Empty(device, inputs, inputs_dtype), Tensor::Empty(device, targets, targets_dtype)};
}

void BatchSource::Fill(int rank, int64_t step, const model::Batch& batch) {
  const auto& [inputs, targets] = batch;
  if (inputs.device()->is_cpu()) return FillOnHost(rank, step, inputs, targets);
  const Tensor host_inputs = Tensor::Empty(host_, inputs.shape(), inputs.dtype());
  const Tensor host_targets = Tensor::Empty(host_, targets.shape(), targets.dtype());
  FillOnHost(rank, step, host_inputs, host_targets);
  inputs.CopyFrom(host_inputs);
  targets.CopyFrom(host_targets);
}

void FillRow(std::span<const char> window, int64_t row, const model::Batch& batch) {
  const auto seq_len = static_cast<int64_t>(window.size()) - 1;
  int32_t* const input = batch.inputs.data<int32_t>() + row * seq_len;
  int32_t* const target = batch.targets.data<int32_t>() + row * seq_len;
  for (size_t i = 0; i + 1 < window.size(); ++i) {
    input[i] = static_cast<unsigned char>(window[i]);
    target[i] = static_cast<unsigned char>(window[i + 1]);
  }
}

std::unique_ptr<BatchSource> UniformImages(uint64_t seed) {
  return std::make_unique<Uniform>(
      [=](const Tensor& tensor, uint64_t stream) { model::FillUniform(tensor, 0, 1, seed, stream); });
}

std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed) {
  return std::make_unique<Uniform>([=](const Tensor& tensor, uint64_t stream) {
    model::FillUniformIntegers(tensor, vocab_size, seed, stream);
  });
}

std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed) {
  constexpr int64_t kByteValues = 256;
  Require(vocab_size >= kByteValues, "--corpus=", path, ": the model's vocabulary is ", vocab_size,
          ", expected at least ", kByteValues, ", one id for each byte");
  std::error_code error;
  const auto size_bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  Require(!error, "--corpus=", path, ": cannot be read: ", error.message());
  Require(size_bytes > max_seq_len, "--corpus=", path, ": found ", size_bytes, " bytes, expected at least ",
          max_seq_len + 1, ", a sequence of ", max_seq_len, " and the byte after it");
  std::string text(static_cast<size_t>(size_bytes), '\0');
  const bool is_whole = std::ifstream(path, std::ios::binary).read(text.data(), size_bytes).good();
  Require(is_whole, "--corpus=", path, ": not all of its ", size_bytes, " bytes can be read");
  return TextTokens(std::move(text), seed);
}

std::unique_ptr<BatchSource> TextTokens(std::string text, uint64_t seed) {
  return std::make_unique<Windows>(std::move(text), seed);
}

}  // namespace gradsync::bench
