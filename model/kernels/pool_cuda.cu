// Pools images. Each element of the result has a thread, which reads all its inputs, and each mean has a
// warp.

#include "model/kernels/pool.h"
#include "model/tensor/cuda_support.h"

namespace gradsync::model::kernels {
namespace {

// The position of an element of an activation.
struct Position {
  __device__ Position(const ActivationShape& shape, int64_t element)
      : lane(element % shape.block),
        col(element / shape.block % shape.width),
        row(element / shape.block / shape.width % shape.height),
        plane(element / shape.plane()) {}

  int64_t lane, col, row;
  int64_t plane;  // image * channel_blocks + channel block
};

__device__ int64_t Element(const ActivationShape& shape, const Position& of_plane, int64_t row, int64_t col) {
  return of_plane.plane * shape.plane() + (row * shape.width + col) * shape.block + of_plane.lane;
}

// Returns the first window that contains a padded row or column.
__device__ int64_t FirstWindow(const PoolShape& shape, int64_t padded) {
  return padded < shape.size ? 0 : (padded - shape.size) / shape.stride + 1;
}

}  // namespace

template <class T>
void MaxPool<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "MaxPool", shape.out().numel(), [*this] __device__(int64_t i) {
    using W = Wide<T>;
    const ActivationShape& in = shape.in;
    const Position to(shape.out(), i);
    const int64_t top = to.row * shape.stride - shape.padding, left = to.col * shape.stride - shape.padding;
    W best = 0;
    int best_at = -1;
    for (int64_t window_row = 0; window_row < shape.size; ++window_row) {
      for (int64_t window_col = 0; window_col < shape.size; ++window_col) {
        const int64_t row = top + window_row, col = left + window_col;
        if (row < 0 || row >= in.height || col < 0 || col >= in.width) continue;
        const W value = Widen(x[Element(in, to, row, col)]);
        if (best_at < 0 || value > best || value != value) {
          best = value;
          best_at = static_cast<int>(window_row * shape.size + window_col);
        }
      }
    }
    y[i] = Narrow<T>(best);
    largest[i] = static_cast<uint8_t>(best_at);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(MaxPool, OnCuda);

template <class T>
void MaxPoolGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "MaxPoolGrad", shape.in.numel(), [*this] __device__(int64_t i) {
    const ActivationShape out = shape.out();
    const Position at(shape.in, i);
    const int64_t padded_row = at.row + shape.padding, padded_col = at.col + shape.padding;
    Wide<T> sum = 0;
    for (int64_t row = FirstWindow(shape, padded_row); row < out.height && row * shape.stride <= padded_row;
         ++row) {
      for (int64_t col = FirstWindow(shape, padded_col); col < out.width && col * shape.stride <= padded_col;
           ++col) {
        const int64_t place =
            (padded_row - row * shape.stride) * shape.size + padded_col - col * shape.stride;
        const int64_t from = Element(out, at, row, col);
        if (largest[from] == place) sum += Widen(dy[from]);
      }
    }
    Store(dx.data + i, sum, dx.accumulate);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(MaxPoolGrad, OnCuda);

template <class T>
void AveragePool<T>::OnCuda(Device& device) const {
  constexpr int64_t kWarps = kThreads / 32;
  const int64_t blocks = (shape.batch * shape.channels + kWarps - 1) / kWarps;
  LaunchBlocks(device, "AveragePool", blocks, [*this] __device__(int64_t) {
    using W = Wide<T>;
    const int64_t index = GridIndex() / 32, image = index / shape.channels, channel = index % shape.channels;
    if (image >= shape.batch) return;  // this condition is equal for all threads of a warp
    W sum = 0;
    for (int64_t pixel = threadIdx.x % 32; pixel < shape.pixels(); pixel += 32)
      sum += Widen(x[shape.ElementOf(channel, image * shape.pixels() + pixel)]);
    sum = CombineLanes<32>(sum, SumOf{});
    if (threadIdx.x % 32 == 0) y[index] = Narrow<T>(sum / static_cast<W>(shape.pixels()));
  });
}
GRADSYNC_INSTANTIATE_KERNEL(AveragePool, OnCuda);

template <class T>
void AveragePoolGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "AveragePoolGrad", shape.numel(), [*this] __device__(int64_t i) {
    const Position at(shape, i);
    const Wide<T> out_grad = Widen(dy[at.plane * shape.block + at.lane]);
    Store(dx.data + i, out_grad / static_cast<Wide<T>>(shape.pixels()), dx.accumulate);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(AveragePoolGrad, OnCuda);

}  // namespace gradsync::model::kernels
