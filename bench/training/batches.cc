#include "bench/training/batches.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "model/error.h"
#include "model/random.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::SafetensorsFile;
using model::Tensor;

// Random numbers: `fill` makes those of one of the streams under a seed.
class Uniform : public BatchSource {
 public:
  using FillTensor = std::function<void(const Tensor& tensor, uint64_t stream)>;
  explicit Uniform(FillTensor fill) : fill_(std::move(fill)) {}

 private:
  void FillOnHost(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const uint64_t stream = (static_cast<uint64_t>(rank) << 40 | static_cast<uint64_t>(step)) << 1;
    fill_(inputs, stream);
    fill_(targets, stream + 1);
  }

  const FillTensor fill_;
};

// Windows at random places of a text.
class Windows : public BatchSource {
 public:
  Windows(std::string text, uint64_t seed)
      : text_(std::move(text)), key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

 private:
  void FillOnHost(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const int64_t seq_len = inputs.dim(1);
    for (int64_t row = 0; row < inputs.dim(0); ++row) {
      const std::span<const char> from_here =
          std::span(text_).subspan(WindowOffset(rank, step, row, seq_len));
      FillRow(from_here.first(static_cast<size_t>(seq_len) + 1), row, {inputs, targets});
    }
  }

  size_t WindowOffset(int rank, int64_t step, int64_t row, int64_t seq_len) const {
    const std::array<uint32_t, 4> words =
        model::Philox4x32(key_, {static_cast<uint32_t>(rank), static_cast<uint32_t>(step),
                                 static_cast<uint32_t>(step >> 32), static_cast<uint32_t>(row)});
    const uint64_t random = static_cast<uint64_t>(words[0]) << 32 | words[1];
    return random % (text_.size() - static_cast<size_t>(seq_len));
  }

  const std::string text_;
  const std::array<uint32_t, 2> key_;
};

const SafetensorsFile::Entry& FindIds(const SafetensorsFile& file, const char* name) {
  const SafetensorsFile::Entry* const entry = file.Find(name);
  Require(entry != nullptr, "--batch_file=", file.path(), ": there is no tensor ", name,
          ", expected inputs and targets");
  Require(entry->dtype == DType::kI32 || entry->dtype == DType::kI64, "--batch_file=", file.path(), ": ",
          name, " is ", Name(entry->dtype), ", expected i32 or i64");
  Require(entry->shape.size() == 2 && model::Numel(entry->shape) > 0, "--batch_file=", file.path(), ": ",
          name, " has shape ", model::ToString(entry->shape), ", expected (rows, seq)");
  return *entry;
}

model::Shape CheckShape(const SafetensorsFile& file, int world_size) {
  model::Shape inputs = FindIds(file, "inputs").shape;
  const model::Shape targets = FindIds(file, "targets").shape;
  Require(inputs == targets, "--batch_file=", file.path(), ": inputs have shape ", model::ToString(inputs),
          " but targets ", model::ToString(targets));
  Require(inputs[0] % world_size == 0, "--batch_file=", file.path(), ": found ", inputs[0],
          " rows, expected a multiple of the ", world_size, " ranks");
  return inputs;
}

class BatchFile : public BatchSource {
 public:
  BatchFile(const SafetensorsFile& file, int64_t vocab_size)
      : inputs_(Load(file, "inputs", vocab_size)), targets_(Load(file, "targets", vocab_size)) {}

 private:
  void FillOnHost(int rank, int64_t /*step*/, const Tensor& inputs, const Tensor& targets) override {
    inputs.CopyFrom(inputs_.Slice(rank * inputs.numel(), inputs.shape()));
    targets.CopyFrom(targets_.Slice(rank * targets.numel(), targets.shape()));
  }

  static Tensor Load(const SafetensorsFile& file, const char* name, int64_t vocab_size) {
    const Tensor loaded = file.Load(name, model::CpuDevice());
    std::vector<int32_t> narrow;
    const auto check = [&](int64_t id) {
      Require(id >= 0 && id < vocab_size, "--batch_file=", file.path(), ": ", name, " holds the id ", id,
              ", expected ids from 0 to ", vocab_size - 1);
      narrow.push_back(static_cast<int32_t>(id));
    };
    if (loaded.dtype() == DType::kI64) {
      std::ranges::for_each(loaded.ToVector<int64_t>(), check);
    } else {
      std::ranges::for_each(loaded.ToVector<int32_t>(), check);
    }
    return Tensor::From<int32_t>(loaded.device(), loaded.shape(), narrow);
  }

  const Tensor inputs_;   // (rows, seq) i32
  const Tensor targets_;  // (rows, seq) i32
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
  std::ifstream(path, std::ios::binary).read(text.data(), size_bytes);
  return TextTokens(std::move(text), seed);
}

model::Shape ReadBatchFileShape(const std::string& path, int world_size) {
  return CheckShape(SafetensorsFile::Open(path), world_size);
}

std::unique_ptr<BatchSource> TextTokens(std::string text, uint64_t seed) {
  return std::make_unique<Windows>(std::move(text), seed);
}

std::unique_ptr<BatchSource> BatchFileTokens(const std::string& path, int64_t vocab_size, int world_size) {
  const SafetensorsFile file = SafetensorsFile::Open(path);
  CheckShape(file, world_size);
  return std::make_unique<BatchFile>(file, vocab_size);
}

}  // namespace gradsync::bench
