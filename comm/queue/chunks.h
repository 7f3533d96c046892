#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/tensor/tensor.h"

// Functions for the collectives of several backends. These collectives divide a vector into one part for each
// rank, or into chunks.
namespace gradsync::comm {

inline constexpr size_t kCacheLineBytes = 64;

// Returns the largest multiple of 64 bytes (a cache line) that is at most `bytes`, but at least 64.
inline size_t WholeLines(size_t bytes) {
  return std::max<size_t>(bytes / kCacheLineBytes, 1) * kCacheLineBytes;
}

// A Slices object is the division of a vector of `total_bytes` into consecutive parts of `part_bytes`:
// begin(i) is the offset of part i in bytes, and bytes(i) is its size. The last part may be shorter than
// `part_bytes`, and a part that would begin at or beyond the vector's end is empty.
struct Slices {
  Slices(size_t total, size_t part) : total_bytes(total), part_bytes(part) {}
  // Returns the division of a vector of `total_bytes` into one part for each of `ranks` ranks. If the vector
  // begins on a cache line, each part that is not empty does too, so no cache line is in two ranks' parts.
  static Slices OfRanks(size_t total_bytes, int ranks) {
    return {total_bytes, (total_bytes / static_cast<size_t>(ranks) / kCacheLineBytes + 1) * kCacheLineBytes};
  }

  size_t count() const { return (total_bytes + part_bytes - 1) / part_bytes; }
  size_t begin(size_t part) const { return std::min(total_bytes, part * part_bytes); }
  size_t bytes(size_t part) const { return begin(part + 1) - begin(part); }

  size_t total_bytes;
  size_t part_bytes;
};

// Calls start(i), and later finish(i), for each chunk i of a vector, i from 0 to count - 1. Between start(i)
// and finish(i), up to `depth` - 1 later chunks are started. The calls of start are in rising order of i, and
// so are those of finish.
template <class Start, class Finish>
void Pipeline(int64_t count, int64_t depth, const Start& start, const Finish& finish) {
  for (int64_t i = 0; i < count + depth - 1; ++i) {
    if (i < count) start(i);
    if (i >= depth - 1) finish(i - depth + 1);
  }
}

inline std::byte* Bytes(const model::Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

// Copies `bytes` bytes from `source` to `target`. The two ranges must be equal, or must not overlap.
inline void CopyBytes(std::byte* target, const std::byte* source, size_t bytes) {
  if (bytes > 0 && target != source) std::memcpy(target, source, bytes);
}

}  // namespace gradsync::comm
