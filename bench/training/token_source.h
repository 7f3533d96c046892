#ifndef GRADSYNC_BENCH_TRAINING_TOKEN_SOURCE_H_
#define GRADSYNC_BENCH_TRAINING_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "bench/training/batch_source.h"

namespace gradsync::bench {

// Sources of (batch, seq) i32 tokens; targets are what comes after each input.

// Token ids drawn uniformly from [0, vocab_size), inputs and targets alike, as in the published experiments.
std::unique_ptr<BatchSource> UniformTokens(int64_t vocab_size, uint64_t seed);

// Windows at random places of a file, bytes as token ids. Throws InvalidInput if the file cannot be read, is
// no longer than the longest sequence, or if the vocabulary is smaller than 256.
std::unique_ptr<BatchSource> CorpusTokens(const std::string& path, int64_t vocab_size, int64_t max_seq_len,
                                          uint64_t seed);

// The batch of a safetensors file with `inputs` and `targets`, (rows, seq) of i32 or i64: in every step rank
// r gets the r-th part of the rows.
struct BatchFileShape {
  int64_t rows = 0;
  int64_t seq_len = 0;
};
// Throws InvalidInput if the file is not as described.
BatchFileShape ReadBatchFileShape(const std::string& path);
// Throws InvalidInput if the file is not as described, its rows cannot be divided among the ranks, or an id
// lies outside [0, vocab_size).
std::unique_ptr<BatchSource> BatchFileTokens(const std::string& path, int64_t vocab_size, int world_size);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_TOKEN_SOURCE_H_
