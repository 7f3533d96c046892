#pragma once

#include <cstdint>

#include "ddp/buckets/bucket.h"
#include "model/tensor/tensor.h"

namespace gradsync::ddp {

// Moves the `count` elements of `from` that have the largest magnitude to values[], in increasing order of
// their indices, and sets these elements to 0 in `from`. Writes their indices to indices[]. `from` is f32, on
// the CPU. Of two elements with equal magnitude, the one with the lower index counts as larger. NaN counts as
// infinity, so NaN and infinity count as larger than all finite numbers. If `indices` is null, `count` must
// be the number of elements of `from`: TakeLargest then copies all elements to values[], sets all elements of
// `from` to 0, and writes no indices. `scratch` must be f32 and have the size of `from`; it may be
// overwritten.
void TakeLargest(const model::Tensor& from, const model::Tensor& scratch, int64_t count, float* values,
                 int32_t* indices);

// Plans a message that has, of each gradient of `bucket`, the `percent` per cent of the elements with the
// largest magnitude, rounded up to a whole number of elements. Of a gradient with fewer than two dimensions
// the message has all elements. PlanMessage sets bucket.numel to the number of gradient elements in the
// message. PlanMessage sets bucket.offsets[i] to the number of elements in the message before those of
// gradient i. Returns the size of the message in bytes, indices included. Throws InvalidInput if a gradient
// of which only some elements are sent has 2^31 elements or more, because indices are sent as i32.
int64_t PlanMessage(double percent, Bucket& bucket);

// Calls fn(parameter, values, indices, count) for each parameter of `bucket`, with its `count` values and
// indices in `message`. A message holds the values (gradient elements that are sent) of all parameters of a
// bucket, and then the indices of all parameters of which only some elements are sent. The bucket's `offsets`
// and `numel` count only the values, not the indices. `indices` is null for a parameter of which all elements
// are sent.
template <class Fn>
void ForEachIn(const model::Tensor& message, const Bucket& bucket, const Fn& fn) {
  auto* const values = static_cast<float*>(message.raw_data());
  auto* indices = reinterpret_cast<int32_t*>(values + bucket.numel);
  for (size_t i = 0; i < bucket.params.size(); ++i) {
    const int64_t begin = bucket.offsets[i];
    const int64_t end = i + 1 < bucket.params.size() ? bucket.offsets[i + 1] : bucket.numel;
    const int64_t count = end - begin;
    const bool is_whole = count == bucket.params[i]->numel();
    fn(*bucket.params[i], values + begin, is_whole ? nullptr : indices, count);
    if (!is_whole) indices += count;
  }
}

}  // namespace gradsync::ddp
