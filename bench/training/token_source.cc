#include "bench/training/token_source.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
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

constexpr int64_t kByteValues = 256;

class Uniform : public BatchSource {
 public:
  Uniform(int64_t vocab_size, uint64_t seed) : vocab_size_(vocab_size), seed_(seed) {}

  void Fill(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const uint64_t stream = BatchStream(rank, step);
    model::FillUniformIntegers(inputs, vocab_size_, seed_, stream);
    model::FillUniformIntegers(targets, vocab_size_, seed_, stream + 1);
  }

 private:
  const int64_t vocab_size_;
  const uint64_t seed_;
};

class Corpus : public BatchSource {
 public:
  Corpus(const std::string& path, int64_t max_seq_len, uint64_t seed)
      : path_(path), key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    Require(!error, "--corpus=", path, ": cannot be read: ", error.message());
    size_bytes_ = static_cast<int64_t>(size);
    Require(size_bytes_ > max_seq_len, "--corpus=", path, ": found ", size_bytes_,
            " bytes, expected at least ", max_seq_len + 1, ", a sequence of ", max_seq_len,
            " and the byte after it");
    in_.open(path, std::ios::binary);
    Require(in_.good(), "--corpus=", path, ": cannot be read: ", std::strerror(errno));
  }

  void Fill(int rank, int64_t step, const Tensor& inputs, const Tensor& targets) override {
    const int64_t batch = inputs.dim(0);
    const int64_t seq_len = inputs.dim(1);
    window_.resize(static_cast<size_t>(seq_len) + 1);
    for (int64_t row = 0; row < batch; ++row) {
      ReadWindow(WindowOffset(rank, step, row, seq_len));
      int32_t* const input = inputs.data<int32_t>() + row * seq_len;
      int32_t* const target = targets.data<int32_t>() + row * seq_len;
      for (size_t i = 0; i + 1 < window_.size(); ++i) {
        input[i] = static_cast<unsigned char>(window_[i]);
        target[i] = static_cast<unsigned char>(window_[i + 1]);
      }
    }
  }

 private:
  int64_t WindowOffset(int rank, int64_t step, int64_t row, int64_t seq_len) const {
    const std::array<uint32_t, 4> words =
        model::Philox4x32(key_, {static_cast<uint32_t>(rank), static_cast<uint32_t>(step),
                                 static_cast<uint32_t>(step >> 32), static_cast<uint32_t>(row)});
    const uint64_t random = static_cast<uint64_t>(words[0]) << 32 | words[1];
    return static_cast<int64_t>(random % static_cast<uint64_t>(size_bytes_ - seq_len));
  }

  void ReadWindow(int64_t offset) {
    in_.seekg(offset);
    in_.read(window_.data(), static_cast<std::streamsize>(window_.size()));
    if (!in_) throw std::runtime_error(Join(path_, ": cannot be read at byte ", offset));
  }

  const std::string path_;
  const std::array<uint32_t, 2> key_;
  int64_t size_bytes_ = 0;
  std::ifstream in_;
  std::vector<char> window_;
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

BatchFileShape CheckShape(const SafetensorsFile& file) {
  const auto& inputs = FindIds(file, "inputs");
  const auto& targets = FindIds(file, "targets");
  Require(inputs.shape == targets.shape, "--batch_file=", file.path(), ": inputs have shape ",
          model::ToString(inputs.shape), " but targets ", model::ToString(targets.shape));
  return {inputs.shape[0], inputs.shape[1]};
}

class BatchFile : public BatchSource {
 public:
  BatchFile(const std::string& path, int64_t vocab_size, int world_size) {
    const SafetensorsFile file = SafetensorsFile::Open(path);
    const BatchFileShape shape = CheckShape(file);
    Require(shape.rows % world_size == 0, "--batch_file=", path, ": found ", shape.rows,
            " rows, expected a multiple of the ", world_size, " ranks");
    inputs_ = Load(file, "inputs", vocab_size);
    targets_ = Load(file, "targets", vocab_size);
  }

  void Fill(int rank, int64_t /*step*/, const Tensor& inputs, const Tensor& targets) override {
    inputs.CopyFrom(inputs_.Slice(rank * inputs.numel(), inputs.shape()));
    targets.CopyFrom(targets_.Slice(rank * targets.numel(), targets.shape()));
  }

 private:
  static Tensor Load(const SafetensorsFile& file, const char* name, int64_t vocab_size) {
    const model::DevicePtr host = model::CpuDevice();
    const Tensor loaded = file.Load(name, host);
    const std::vector<int64_t> ids =
        loaded.dtype() == DType::kI64 ? loaded.ToVector<int64_t>() : Widen(loaded);
    std::vector<int32_t> narrow(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      Require(ids[i] >= 0 && ids[i] < vocab_size, "--batch_file=", file.path(), ": ", name, " holds the id ",
              ids[i], ", expected ids from 0 to ", vocab_size - 1);
      narrow[i] = static_cast<int32_t>(ids[i]);
    }
    return Tensor::From<int32_t>(host, loaded.shape(), narrow);
  }

  static std::vector<int64_t> Widen(const Tensor& ids) {
    const std::vector<int32_t> narrow = ids.ToVector<int32_t>();
    return {narrow.begin(), narrow.end()};
  }

  Tensor inputs_;   // (rows, seq) i32
  Tensor targets_;  // (rows, seq) i32
};

}  // namespace

std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed) {
  return std::make_unique<Uniform>(vocab_size, seed);
}

std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed) {
  Require(vocab_size >= kByteValues, "--corpus=", path, ": the model's vocabulary is ", vocab_size,
          ", expected at least ", kByteValues, ", one id for each byte");
  return std::make_unique<Corpus>(path, max_seq_len, seed);
}

BatchFileShape ReadBatchFileShape(const std::string& path) { return CheckShape(SafetensorsFile::Open(path)); }

std::unique_ptr<BatchSource> BatchFileTokens(const std::string& path, int64_t vocab_size, int world_size) {
  return std::make_unique<BatchFile>(path, vocab_size, world_size);
}

}  // namespace gradsync::bench
