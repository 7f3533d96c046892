#pragma once

#include <algorithm>
#include <cstdint>

#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// Divides [0, n) into consecutive ranges, at most one per thread of the device, and calls fn(begin, end) for
// each range. The calling thread makes one of these calls; each other call runs on a thread of its own.
// ParallelFor returns when all calls are done. The length of each range except the last is a multiple of
// `grain`. If n is at most `grain`, there is at most one range, which the calling thread handles. fn must not
// throw.
template <class Fn>
void ParallelFor(const Device& device, int64_t n, const Fn& fn, int64_t grain = 4096) {
  const int64_t grains = (n + grain - 1) / grain;
  const int64_t parts = std::min<int64_t>(device.num_threads(), grains);
  if (parts <= 1) {
    if (n > 0) fn(int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = std::min(n, grains * part / parts * grain);
    const int64_t end = std::min(n, grains * (part + 1) / parts * grain);
    fn(begin, end);
  }
}

// Calls fn(i) for each i of [0, n) on the device's threads: ParallelFor divides [0, n) into ranges, and one
// thread makes all calls of a range.
template <class Fn>
void ParallelForEach(const Device& device, int64_t n, int64_t grain, const Fn& fn) {
  const auto each = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  };
  ParallelFor(device, n, each, grain);
}

}  // namespace gradsync::model::kernels
