#pragma once

#include <array>
#include <cstdint>

#include "model/tensor/tensor.h"

// Makes random numbers. For one seed and stream, the numbers are equal on every machine and with any number
// of threads, whatever was drawn earlier. The 32-bit word from which number i of a stream (a sequence of
// random numbers) is made depends only on (seed, stream, i).
namespace gradsync::model {

// Returns four random 32-bit words for each (key, counter), by Philox4x32-10: Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

// A Purpose tells what a caller needs random numbers for. Each purpose has its own streams (StreamOf), so
// that, for example, initial weights and batches that are drawn with the same seed are independent.
enum class Purpose : uint64_t { kWeights, kBatches, kOrder, kSpotChecks, kLowRank, kPeak };

// Returns the number of the stream (a sequence of random numbers) that has the index `index` among the
// streams of `purpose`, such as kWeights. RandomWords and the Fill functions take this number as the argument
// `stream`. Each Purpose has 2^56 streams: `index` must be less than 2^56, which StreamOf does not check.
constexpr uint64_t StreamOf(Purpose purpose, uint64_t index) {
  return static_cast<uint64_t>(purpose) << 56 | index;
}

// Returns four random 32-bit words: those with the number `counter` in the stream `stream`. With equal seeds
// and streams, two counters never give the same four words.
std::array<uint32_t, 4> RandomWords(uint64_t seed, uint64_t stream, uint64_t counter);

// Fills `tensor` (f32 or f64) with random numbers of the normal distribution N(0, stddev^2), truncated to [-3
// stddev, 3 stddev]. The numbers are rounded to f32 also for an f64 tensor, so both dtypes get equal values.
// Throws InvalidInput unless `tensor` is f32 or f64.
void FillTruncatedNormal(const Tensor& tensor, double stddev, uint64_t seed, uint64_t stream);

// Fills `tensor` (f32 or f64) with random numbers low + (high - low) * k / 2^24, where k is a uniform random
// integer of [0, 2^24). A number may equal `high` rounded to f32. The numbers are rounded to f32 also for an
// f64 tensor, so both dtypes get equal values. Throws InvalidInput unless `tensor` is f32 or f64.
void FillUniform(const Tensor& tensor, double low, double high, uint64_t seed, uint64_t stream);

// Fills `tensor` (i32) with random integers of [0, upper), uniformly distributed up to a relative error of
// upper / 2^32. Throws InvalidInput if `tensor` is not i32, or if `upper` is outside [1, 2^31).
void FillUniformIntegers(const Tensor& tensor, int64_t upper, uint64_t seed, uint64_t stream);

}  // namespace gradsync::model
