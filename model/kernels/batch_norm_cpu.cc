#include <algorithm>
#include <cmath>

#include "model/kernels/batch_norm.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {
namespace {

// Consecutive elements are processed in rows of kLanes. Lane l of every row belongs to channel l % block of
// its block, because block divides kLanes.
constexpr int64_t kLanes = 16;
// A piece is small enough to stay in the first-level cache between two passes over it.
constexpr int64_t kPiece = 2048;

template <class T>
struct Lanes {
  alignas(64) T at[kLanes] = {};
};

// Returns the values of a block, one for each lane.
template <class T>
Lanes<T> Spread(const T* of_block, int64_t block) {
  Lanes<T> lanes;
  for (int64_t l = 0; l < kLanes; ++l) lanes.at[l] = of_block[l % block];
  return lanes;
}

// Calls fn(i, l) for all elements i < n and their lanes.
template <class Fn>
inline void ForLanes(int64_t n, const Fn& fn) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) fn(i + l, l);
  }
  for (int64_t l = 0; i + l < n; ++l) fn(i + l, l);
}

// Calls fn(offset, n) for the pieces of a block of channels in all images.
template <class Fn>
void ForPieces(const ActivationShape& shape, int64_t channel_block, const Fn& fn) {
  for (int64_t image = 0; image < shape.batch; ++image) {
    const int64_t plane = (image * shape.channel_blocks() + channel_block) * shape.plane();
    for (int64_t at = 0; at < shape.plane(); at += kPiece)
      fn(plane + at, std::min(kPiece, shape.plane() - at));
  }
}

// The count of a set of numbers, their mean, and the sum of squares of their deviations from the mean.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  // Adds another set, without the cancellation of sums of x and x^2: Chan, Golub and LeVeque, "Updating
  // formulae and a pairwise algorithm for computing sample variances", 1979.
  void Join(const Moments& other) {
    if (other.count == 0) return;
    const double all = count + other.count, delta = other.mean - mean;
    mean += delta * (other.count / all);
    squares += other.squares + delta * delta * (count * other.count / all);
    count = all;
  }
};

template <class T>
void JoinPiece(const T* x, int64_t n, Moments (&lanes)[kLanes]) {
  Lanes<T> count, mean, squares;
  for (int64_t l = 0; l < kLanes; ++l) {
    const int64_t own = (n - l + kLanes - 1) / kLanes;
    count.at[l] = static_cast<T>(own);
  }
  ForLanes(n, [&](int64_t i, int64_t l) { mean.at[l] += x[i]; });
  for (int64_t l = 0; l < std::min(n, kLanes); ++l) mean.at[l] /= count.at[l];
  ForLanes(n, [&](int64_t i, int64_t l) {
    const T deviation = x[i] - mean.at[l];
    squares.at[l] += deviation * deviation;
  });
  for (int64_t l = 0; l < kLanes; ++l) lanes[l].Join({count.at[l], mean.at[l], squares.at[l]});
}

// The values with which a block's channels are normalised, one for each lane.
template <class T>
struct Affine {
  Affine(int64_t block, const T* of_mean, const T* of_r, const T* of_weight, const T* of_bias)
      : mean(Spread(of_mean, block)),
        r(Spread(of_r, block)),
        scale(Spread(of_weight, block)),
        bias(Spread(of_bias, block)) {
    for (int64_t l = 0; l < kLanes; ++l) scale.at[l] *= r.at[l];
  }

  // Rounds once, so that forward and backward always have equal signs.
  T Of(T x, int64_t lane) const { return std::fma(x - mean.at[lane], scale.at[lane], bias.at[lane]); }

  Lanes<T> mean, r, scale, bias;
};

template <class T>
Affine<Wide<T>> AffineOf(const ActivationShape& shape, const BatchNormInputs<T>& in, int64_t channel,
                         const Wide<T>* mean, const Wide<T>* r) {
  return {shape.block, mean + channel, r + channel, in.weight + channel, in.bias + channel};
}

template <class T>
inline T Relu(T value) {
  return T{0} > value ? T{0} : value;  // a NaN remains
}

template <bool kRelu, bool kAdds, class T>
void Normalize(const T* x, const T* residual, int64_t n, const Affine<T>& affine, T* y) {
  ForLanes(n, [&](int64_t i, int64_t l) {
    T value = affine.Of(x[i], l);
    if constexpr (kAdds) value += residual[i];
    y[i] = kRelu ? Relu(value) : value;
  });
}

// Sets out to value(i, l), or adds value(i, l) to out.
template <class T, class Value>
void StoreLanes(T* out, int64_t n, bool accumulate, const Value& value) {
  if (accumulate) {
    ForLanes(n, [&](int64_t i, int64_t l) { out[i] += value(i, l); });
  } else {
    ForLanes(n, [&](int64_t i, int64_t l) { out[i] = value(i, l); });
  }
}

// Returns the sum of all lanes of a channel, in each of these lanes.
template <class T>
Lanes<T> SumOfChannel(const Lanes<double>& lanes, int64_t block, double factor) {
  Lanes<T> sums;
  for (int64_t l = 0; l < kLanes; ++l) {
    double sum = 0;
    for (int64_t other = l % block; other < kLanes; other += block) sum += lanes.at[other];
    sums.at[l] = static_cast<T>(sum * factor);
  }
  return sums;
}

template <class T>
void StoreChannels(const Destination<T*>& place, int64_t channel, int64_t block, const Lanes<T>& lanes) {
  if (place.data == nullptr) return;
  for (int64_t c = 0; c < block; ++c) {
    T& out = place.data[channel + c];
    out = place.accumulate ? out + lanes.at[c] : lanes.at[c];
  }
}

// Fills mean and r of the block's channels, and updates their running statistics.
template <class T>
void Statistics(const BatchNorm<T>& norm, int64_t channel_block) {
  using W = Wide<T>;
  const ActivationShape& shape = norm.shape;
  const W momentum = static_cast<W>(norm.momentum);
  const auto move = [&](W& average, W value) { average += momentum * (value - average); };
  Moments lanes[kLanes];
  Reader<T> read(kPiece);
  ForPieces(shape, channel_block,
            [&](int64_t at, int64_t n) { JoinPiece(read(norm.in.x + at, n).data(), n, lanes); });
  for (int64_t c = 0; c < shape.block; ++c) {
    Moments moments = lanes[c];
    for (int64_t l = c + shape.block; l < kLanes; l += shape.block) moments.Join(lanes[l]);
    const int64_t channel = channel_block * shape.block + c;
    norm.mean[channel] = static_cast<W>(moments.mean);
    norm.r[channel] = static_cast<W>(1 / std::sqrt(moments.squares / moments.count + norm.eps));
    move(norm.running_mean[channel], norm.mean[channel]);
    move(norm.running_var[channel], static_cast<W>(moments.squares / (moments.count - 1)));
  }
}

template <class T>
void GradOfBlock(const BatchNormGrad<T>& grads, int64_t channel_block) {
  using W = Wide<T>;
  const ActivationShape& shape = grads.shape;
  const BatchNormInputs<T>& in = grads.in;
  const T *const y = grads.y, *const dy = grads.dy;
  const int64_t channel = channel_block * shape.block;
  const Affine<W> affine = AffineOf(shape, in, channel, grads.mean, grads.r);
  Reader<T> read_x(kPiece), read_y(kPiece), read_dy(kPiece);
  alignas(64) W masked[kPiece];
  // Returns dy where the input of the relu was positive. x is the piece of in.x. Without a residual, the
  // relu's input is computed again from x, which must be read anyway; with a residual, the relu's output is
  // used.
  const auto mask = [&](int64_t at, int64_t n, const W* x) -> const W* {
    const W* const out_grad = read_dy(dy + at, n).data();
    if (!in.relu) return out_grad;
    if (y != nullptr) {
      const W* const out = read_y(y + at, n).data();
      ForLanes(n, [&](int64_t i, int64_t) { masked[i] = out[i] <= W{0} ? W{0} : out_grad[i]; });
    } else {
      ForLanes(n, [&](int64_t i, int64_t l) { masked[i] = affine.Of(x[i], l) <= W{0} ? W{0} : out_grad[i]; });
    }
    return masked;
  };

  Lanes<double> sum_g, sum_gx;
  Writer<T> write(kPiece);
  ForPieces(shape, channel_block, [&](int64_t at, int64_t n) {
    const W* x = read_x(in.x + at, n).data();
    const W* g = mask(at, n, x);
    Lanes<W> piece_g, piece_gx;
    ForLanes(n, [&](int64_t i, int64_t l) {
      piece_g.at[l] += g[i];
      piece_gx.at[l] += g[i] * (x[i] - affine.mean.at[l]);
    });
    for (int64_t l = 0; l < kLanes; ++l) {
      sum_g.at[l] += static_cast<double>(piece_g.at[l]);
      sum_gx.at[l] += static_cast<double>(piece_gx.at[l]);
    }
    if (grads.dresidual.data == nullptr) return;
    write(grads.dresidual.data + at, n, grads.dresidual.accumulate,
          [&](ArrayMap<W> out) { Store(out, ConstArrayMap<W>(g, n), grads.dresidual.accumulate); });
  });
  Lanes<W> dweight = SumOfChannel<W>(sum_gx, shape.block, 1);
  for (int64_t l = 0; l < kLanes; ++l) dweight.at[l] *= affine.r.at[l];
  StoreChannels(grads.dbias, channel, shape.block, SumOfChannel<W>(sum_g, shape.block, 1));
  StoreChannels(grads.dweight, channel, shape.block, dweight);
  if (grads.dx.data == nullptr) return;

  const double per_pixel = 1 / static_cast<double>(shape.batch * shape.pixels());
  const Lanes<W> mean_g = SumOfChannel<W>(sum_g, shape.block, per_pixel);
  Lanes<W> slope = SumOfChannel<W>(sum_gx, shape.block, per_pixel);
  for (int64_t l = 0; l < kLanes; ++l) slope.at[l] *= affine.r.at[l] * affine.r.at[l];
  const bool stored_g = grads.dresidual.data != nullptr && !grads.dresidual.accumulate;
  ForPieces(shape, channel_block, [&](int64_t at, int64_t n) {
    const W* x = read_x(in.x + at, n).data();
    const W* g = stored_g ? read_dy(grads.dresidual.data + at, n).data() : mask(at, n, x);
    write(grads.dx.data + at, n, grads.dx.accumulate, [&](ArrayMap<W> out) {
      StoreLanes(out.data(), n, grads.dx.accumulate, [&](int64_t i, int64_t l) {
        return affine.scale.at[l] * (g[i] - mean_g.at[l] - (x[i] - affine.mean.at[l]) * slope.at[l]);
      });
    });
  });
}

}  // namespace

template <class T>
void BatchNorm<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  ParallelForEach(device, shape.channel_blocks(), 1, [&](int64_t channel_block) {
    Statistics(*this, channel_block);
    const Affine<W> affine = AffineOf(shape, in, channel_block * shape.block, mean, r);
    Reader<T> read_x(kPiece), read_residual(kPiece);
    Writer<T> write(kPiece);
    ForPieces(shape, channel_block, [&](int64_t at, int64_t n) {
      const W* x = read_x(in.x + at, n).data();
      write(y + at, n, /*accumulate=*/false, [&](ArrayMap<W> out) {
        if (in.residual != nullptr) {
          const W* residual = read_residual(in.residual + at, n).data();
          (in.relu ? Normalize<true, true, W> : Normalize<false, true, W>)(x, residual, n, affine,
                                                                           out.data());
        } else {
          (in.relu ? Normalize<true, false, W> : Normalize<false, false, W>)(x, nullptr, n, affine,
                                                                             out.data());
        }
      });
    });
  });
  ++*num_batches_tracked;
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNorm, OnCpu);

template <class T>
void BatchNormGrad<T>::OnCpu(Device& device) const {
  ParallelForEach(device, shape.channel_blocks(), 1,
                  [&](int64_t channel_block) { GradOfBlock(*this, channel_block); });
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNormGrad, OnCpu);

}  // namespace gradsync::model::kernels
