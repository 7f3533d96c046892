#pragma once

#include <array>
#include <cstdint>

#include "model/tensor/tensor.h"

// Random numbers that do not depend on the machine, the number of threads or earlier draws: element i of
// stream s with a seed is a pure function of (seed, s, i). The standard library's distributions do not
// guarantee this.
namespace gradsync::model {

// Returns four independent uniform words for each (key, counter): Philox4x32-10 of Salmon, Moraes, Dror and
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 2> key, std::array<uint32_t, 4> counter);

// The purpose of random numbers. Each purpose has its own streams, so that two purposes with one seed share
// no word.
enum class Purpose : uint64_t { kWeights, kBatches, kOrder, kSpotChecks, kLowRank, kPeak };

// Returns the purpose's stream with this index, below 2^56. Streams of kWeights are numbered by their index
// alone.
constexpr uint64_t StreamOf(Purpose purpose, uint64_t index) {
  return static_cast<uint64_t>(purpose) << 56 | index;
}

// Returns words of a stream, for single draws.
std::array<uint32_t, 4> RandomWords(uint64_t seed, uint64_t stream, uint64_t counter);

// Fills `tensor` (f32 or f64) with a normal distribution of mean 0 and standard deviation `stddev`, cut off
// at 3 stddev to either side (by inversion, so no value is clamped). Both dtypes get the same values, rounded
// to f32. Throws InvalidInput for another dtype.
void FillTruncatedNormal(const Tensor& tensor, double stddev, uint64_t seed, uint64_t stream);

// Fills `tensor` (f32 or f64) with a uniform distribution from low to high, in 2^24 steps; high itself may
// occur by rounding, if low is not 0. Both dtypes get the same values, rounded to f32. Throws InvalidInput
// for another dtype.
void FillUniform(const Tensor& tensor, double low, double high, uint64_t seed, uint64_t stream);

// Fills `tensor` (i32) with integers from [0, upper), uniform to one part in 2^32 / upper.
// Throws InvalidInput for another dtype or an upper bound outside [1, 2^31).
void FillUniformIntegers(const Tensor& tensor, int64_t upper, uint64_t seed, uint64_t stream);

}  // namespace gradsync::model
