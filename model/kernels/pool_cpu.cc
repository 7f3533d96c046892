#include <algorithm>

#include "model/kernels/pool.h"
#include "model/tensor/dtype.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {
namespace {

// Calls fn.operator()<block>() with the channel block as a constant, so that loops over it become vectors.
template <class Fn>
void WithBlock(int64_t block, const Fn& fn) {
  if (block == 16) return fn.template operator()<16>();
  if (block == 8) return fn.template operator()<8>();
  fn.template operator()<1>();
}

// Calls fn(i) for the planes of an activation. A plane has the pixels of one image and one block of channels.
template <class Fn>
void ForPlanes(const Device& device, const ActivationShape& shape, const Fn& fn) {
  ParallelForEach(device, shape.batch * shape.channel_blocks(), std::max<int64_t>(1, 4096 / shape.plane()),
                  fn);
}

template <int64_t kBlock, class T>
void MaxPoolPlane(const PoolShape& shape, const T* x, T* y, uint8_t* largest) {
  using W = Wide<T>;
  const ActivationShape in = shape.in, out = shape.out();
  for (int64_t row = 0; row < out.height; ++row) {
    const int64_t top = row * shape.stride - shape.padding;
    for (int64_t col = 0; col < out.width; ++col) {
      const int64_t left = col * shape.stride - shape.padding;
      // Padding is smaller than the window, so a part of the window is in the image.
      const int64_t first_i = std::max<int64_t>(0, -top), first_j = std::max<int64_t>(0, -left);
      const auto pixel = [&](int64_t i, int64_t j) { return x + ((top + i) * in.width + left + j) * kBlock; };
      W best[kBlock];
      const T* const first = pixel(first_i, first_j);
      for (int64_t c = 0; c < kBlock; ++c) best[c] = static_cast<W>(first[c]);
      uint8_t best_at[kBlock];
      std::fill_n(best_at, kBlock, static_cast<uint8_t>(first_i * shape.size + first_j));
      for (int64_t i = first_i; i < std::min(shape.size, in.height - top); ++i) {
        for (int64_t j = first_j; j < std::min(shape.size, in.width - left); ++j) {
          const T* candidate = pixel(i, j);
          const uint8_t at = static_cast<uint8_t>(i * shape.size + j);
          for (int64_t c = 0; c < kBlock; ++c) {
            const W value = static_cast<W>(candidate[c]);
            const bool larger = value > best[c] || value != value;
            best[c] = larger ? value : best[c];
            best_at[c] = larger ? at : best_at[c];
          }
        }
      }
      const int64_t to = (row * out.width + col) * kBlock;
      for (int64_t c = 0; c < kBlock; ++c) y[to + c] = static_cast<T>(best[c]);
      std::copy_n(best_at, kBlock, largest + to);
    }
  }
}

// Computes the gradient of each input pixel from all windows that contain it. So each pixel is written once,
// with vector instructions.
template <int64_t kBlock, class T>
void MaxPoolGradPlane(const PoolShape& shape, const uint8_t* largest, const T* dy, T* dx, bool accumulate) {
  using W = Wide<T>;
  const ActivationShape in = shape.in, out = shape.out();
  // The first and the last window that contain a padded pixel.
  const auto first = [&](int64_t pixel) {
    return pixel < shape.size ? 0 : (pixel - shape.size) / shape.stride + 1;
  };
  for (int64_t row = 0; row < in.height; ++row) {
    const int64_t padded_row = row + shape.padding;
    const int64_t last_out_row = std::min(out.height - 1, padded_row / shape.stride);
    for (int64_t col = 0; col < in.width; ++col) {
      const int64_t padded_col = col + shape.padding;
      const int64_t last_out_col = std::min(out.width - 1, padded_col / shape.stride);
      W sum[kBlock] = {};
      for (int64_t i = first(padded_row); i <= last_out_row; ++i) {
        for (int64_t j = first(padded_col); j <= last_out_col; ++j) {
          const int64_t at = (padded_row - i * shape.stride) * shape.size + padded_col - j * shape.stride;
          const int64_t from = (i * out.width + j) * kBlock;
          for (int64_t c = 0; c < kBlock; ++c)
            sum[c] += largest[from + c] == at ? static_cast<W>(dy[from + c]) : W{0};
        }
      }
      T* pixel = dx + (row * in.width + col) * kBlock;
      for (int64_t c = 0; c < kBlock; ++c)
        pixel[c] = static_cast<T>(accumulate ? static_cast<W>(pixel[c]) + sum[c] : sum[c]);
    }
  }
}

}  // namespace

template <class T>
void MaxPool<T>::OnCpu(Device& device) const {
  const int64_t in_plane = shape.in.plane(), out_plane = shape.out().plane();
  WithBlock(shape.in.block, [&]<int64_t kBlock>() {
    ForPlanes(device, shape.in, [&](int64_t plane) {
      MaxPoolPlane<kBlock>(shape, x + plane * in_plane, y + plane * out_plane, largest + plane * out_plane);
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(MaxPool, OnCpu);

template <class T>
void MaxPoolGrad<T>::OnCpu(Device& device) const {
  const int64_t in_plane = shape.in.plane(), out_plane = shape.out().plane();
  WithBlock(shape.in.block, [&]<int64_t kBlock>() {
    ForPlanes(device, shape.in, [&](int64_t plane) {
      MaxPoolGradPlane<kBlock>(shape, largest + plane * out_plane, dy + plane * out_plane,
                               dx.data + plane * in_plane, dx.accumulate);
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(MaxPoolGrad, OnCpu);

template <class T>
void AveragePool<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  WithBlock(shape.block, [&]<int64_t kBlock>() {
    ForPlanes(device, shape, [&](int64_t plane) {
      const T* pixel = x + plane * shape.plane();
      W sum[kBlock] = {};
      for (int64_t i = 0; i < shape.pixels(); ++i, pixel += kBlock) {
        for (int64_t c = 0; c < kBlock; ++c) sum[c] += static_cast<W>(pixel[c]);
      }
      for (int64_t c = 0; c < kBlock; ++c)
        y[plane * kBlock + c] = static_cast<T>(sum[c] / static_cast<W>(shape.pixels()));
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(AveragePool, OnCpu);

template <class T>
void AveragePoolGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  WithBlock(shape.block, [&]<int64_t kBlock>() {
    ForPlanes(device, shape, [&](int64_t plane) {
      W share[kBlock];
      for (int64_t c = 0; c < kBlock; ++c)
        share[c] = static_cast<W>(dy[plane * kBlock + c]) / static_cast<W>(shape.pixels());
      T* pixel = dx.data + plane * shape.plane();
      for (int64_t i = 0; i < shape.pixels(); ++i, pixel += kBlock) {
        for (int64_t c = 0; c < kBlock; ++c)
          pixel[c] = static_cast<T>(dx.accumulate ? static_cast<W>(pixel[c]) + share[c] : share[c]);
      }
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(AveragePoolGrad, OnCpu);

}  // namespace gradsync::model::kernels
