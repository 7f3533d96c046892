#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/model.h"

// Sources of the batches of a run.
namespace gradsync::bench {

// The shape of one rank's batch.
struct BatchShape {
  model::Shape inputs;
  model::DType inputs_dtype = model::DType::kF32;
  model::Shape targets;
  model::DType targets_dtype = model::DType::kF32;

  bool operator==(const BatchShape&) const = default;
  // Returns a batch with undefined contents.
  model::Batch NewBatch(const model::DevicePtr& device) const;
};

// A batch depends only on the source, the rank and the step. So all strategies train on equal data, and one
// process can make the batches of all ranks.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Overwrites `batch`, on any device, with the batch of rank `rank` in step `step`. For a GPU, the batch is
  // made on the host and copied. The copy is complete on return, so timed phases do not include it, and
  // pinned memory would not help.
  void Fill(int rank, int64_t step, const model::Batch& batch);

 private:
  virtual void FillOnHost(int rank, int64_t step, const model::Tensor& inputs,
                          const model::Tensor& targets) = 0;

  const model::DevicePtr host_ = model::CpuDevice();  // keeps the memory of a batch for the next batch
};

// Returns a source of images and targets, f32 or f64 of any shape, drawn uniformly from [0, 1), as in the
// published experiment.
std::unique_ptr<BatchSource> UniformImages(uint64_t seed);

// The following sources make (batch, seq) tokens, i32. A target is the token after its input.

// Returns a source of token ids. Inputs and targets are drawn uniformly from [0, vocab_size), as in the
// published experiments.
std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed);

// Returns a source of windows at random positions of a file, with bytes as token ids. The windows of a step
// do not depend on the number of ranks that share them. Throws InvalidInput if the file cannot be read or is
// not longer than the longest sequence, or if the vocabulary is smaller than 256.
std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed);

// Returns a source of windows of a text, which must be longer than the longest sequence.
std::unique_ptr<BatchSource> TextTokens(std::string text, uint64_t seed);
// Fills row `row` of a batch on the host with inputs and targets from (seq + 1) bytes.
void FillRow(std::span<const char> window, int64_t row, const model::Batch& batch);

}  // namespace gradsync::bench
