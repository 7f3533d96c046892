#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/model.h"

namespace gradsync::bench {

// The shapes and dtypes of the inputs and targets in one rank's batch of a training step.
struct BatchShape {
  model::Shape inputs;
  model::DType inputs_dtype = model::DType::kF32;
  model::Shape targets;
  model::DType targets_dtype = model::DType::kF32;

  bool operator==(const BatchShape&) const = default;
  model::Batch NewBatch(const model::DevicePtr& device) const;
};

// A BatchSource makes training batches. A batch depends only on the source, the rank, the number of the step
// and the shape of the batch. So all strategies train on equal data. One process can also make the batches of
// all ranks, to check the gradients that the ranks compute.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Overwrites `batch`, on any device, with the batch of rank `rank` in training step `step`. For a GPU, the
  // batch is made on the host and copied; the copy is complete on return, so the measured times of steps do
  // not include the copy.
  void Fill(int rank, int64_t step, const model::Batch& batch);

 private:
  virtual void FillOnHost(int rank, int64_t step, const model::Tensor& inputs,
                          const model::Tensor& targets) = 0;

  const model::DevicePtr host_ = model::CpuDevice();  // keeps the memory of a batch for the next batch
};

// Returns a source that fills the caller's f32 or f64 tensors, of any shape, with uniform numbers in [0, 1).
std::unique_ptr<BatchSource> UniformImages(uint64_t seed);

// The batch sources that the following functions return make token ids, i32 of shape (batch, seq).

// Returns a source whose inputs and targets are independent integers, drawn uniformly from [0, vocab_size).
std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed);

// Returns a source of sequences at random positions of the file `path`, whose bytes are the token ids; the
// target of each token is the next token of the file. The sequences that all ranks together get in a step
// depend on the sum of the ranks' numbers of rows. They do not depend on how many ranks divide these rows
// equally among themselves. Throws InvalidInput if the file cannot be read or has not more than max_seq_len
// bytes, or if vocab_size is smaller than 256.
std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed);

// Returns a source of sequences at random positions of `text`, whose bytes are the token ids; the target of
// each token is the next token of `text`. For sequences of n tokens, `text` must have more than n bytes.
std::unique_ptr<BatchSource> TextTokens(std::string text, uint64_t seed);
// Sets row `row` of the inputs and targets of `batch`, a batch on the CPU, to the bytes (token ids) of
// `window`. `window` must have one byte more than a row has tokens. The row's inputs are all bytes of
// `window` but the last, and its targets all bytes but the first.
void FillRow(std::span<const char> window, int64_t row, const model::Batch& batch);

}  // namespace gradsync::bench
