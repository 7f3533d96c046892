#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/model.h"

// Where the batches of a run come from.
namespace gradsync::bench {

// What one rank's batch looks like.
struct BatchShape {
  model::Shape inputs;
  model::DType inputs_dtype = model::DType::kF32;
  model::Shape targets;
  model::DType targets_dtype = model::DType::kF32;

  bool operator==(const BatchShape&) const = default;
  // Filled with whatever lay in memory.
  model::Batch NewBatch(const model::DevicePtr& device) const;
};

// A batch is a function of the source, the rank and the step: every strategy trains on the same data, and one
// process can make the batches of all ranks.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Overwrites `batch`, on any device, with rank `rank`'s of step `step`. For a GPU it is made on the host
  // and copied. The copy is complete on return, so that none of it lies in a timed phase, and memory that is
  // not pinned serves as well.
  void Fill(int rank, int64_t step, const model::Batch& batch);

 private:
  virtual void FillOnHost(int rank, int64_t step, const model::Tensor& inputs,
                          const model::Tensor& targets) = 0;

  const model::DevicePtr host_ = model::CpuDevice();  // keeps the memory of a batch for the next one
};

// Images and targets, f32 or f64 of any shape, drawn uniformly from [0, 1), as in the published experiment.
std::unique_ptr<BatchSource> UniformImages(uint64_t seed);

// The others make (batch, seq) i32 tokens; targets are what comes after each input.

// Token ids drawn uniformly from [0, vocab_size), inputs and targets alike, as in the published experiments.
std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed);

// Windows at random places of a file, bytes as token ids: in each step the same ones, however many ranks
// share them. Throws InvalidInput if the file cannot be read, is no longer than the longest sequence, or if
// the vocabulary is smaller than 256.
std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed);

// The same of a text, which must be longer than the longest sequence.
std::unique_ptr<BatchSource> TextTokens(std::string text, uint64_t seed);
// Row `row` of a batch on the host: (seq + 1) bytes as inputs and targets.
void FillRow(std::span<const char> window, int64_t row, const model::Batch& batch);

}  // namespace gradsync::bench
