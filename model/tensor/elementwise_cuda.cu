#include "model/tensor/cuda_support.h"
#include "model/tensor/elementwise.h"

namespace gradsync::model::kernels {

template <class T>
void Scaled<T>::OnCuda(Device& device) const {
  const Wide<T> times = static_cast<Wide<T>>(factor);
  LaunchLoop(device, "Scaled", n,
             [=, *this] __device__(int64_t i) { Store(y.data + i, Widen(x[i]) * times, y.accumulate); });
}
GRADSYNC_INSTANTIATE_KERNEL(Scaled, OnCuda);

template <class T>
void Fill<T>::OnCuda(Device& device) const {
  const Wide<T> wide = static_cast<Wide<T>>(value);
  LaunchLoop(device, "Fill", n, [=, *this] __device__(int64_t i) { y[i] = Narrow<T>(wide); });
}
GRADSYNC_INSTANTIATE_KERNEL(Fill, OnCuda);

template <class From, class To>
void Cast<From, To>::OnCuda(Device& device) const {
  LaunchLoop(device, "Cast", n,
             [*this] __device__(int64_t i) { Store(y.data + i, Widen(x[i]), y.accumulate); });
}
template void Cast<float, BF16>::OnCuda(Device&) const;
template void Cast<BF16, float>::OnCuda(Device&) const;

template <class From, class To>
void SwapAxes<From, To>::OnCuda(Device& device) const {
  LaunchLoop(device, "SwapAxes", batch * rows * cols, [*this] __device__(int64_t i) {
    const int64_t row = i % rows, col = i / rows % cols, matrix = i / rows / cols;
    Store(y.data + i, Widen(x[(matrix * rows + row) * cols + col]), y.accumulate);
  });
}
template void SwapAxes<float, float>::OnCuda(Device&) const;
template void SwapAxes<float, BF16>::OnCuda(Device&) const;
template void SwapAxes<BF16, float>::OnCuda(Device&) const;

template <class T>
void AddBias<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "AddBias", rows * d,
             [*this] __device__(int64_t i) { y[i] = Narrow<T>(Widen(x[i]) + bias[i % d]); });
}
GRADSYNC_INSTANTIATE_KERNEL(AddBias, OnCuda);

// Each column has a thread, so adjacent threads read adjacent elements of a row.
template <class T>
void BiasGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "BiasGrad", d, [*this] __device__(int64_t col) {
    Wide<T> sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += Widen(dy[row * d + col]);
    Store(dbias.data + col, sum, dbias.accumulate);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(BiasGrad, OnCuda);

template <class T>
void SquaredSums<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "SquaredSums", NumPieces(n), [*this] __device__(int64_t piece) {
    const int64_t rest = n - piece * kSumPiece,
                  end = piece * kSumPiece + (rest < kSumPiece ? rest : kSumPiece);
    double sum = 0;
    for (int64_t i = piece * kSumPiece + threadIdx.x; i < end; i += blockDim.x) {
      const auto value = static_cast<double>(Widen(x[i]));
      sum += value * value;
    }
    sum = CombineBlock(sum, 0.0, SumOf{});
    if (threadIdx.x == 0) sums[piece] = sum;
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredSums, OnCuda);

template <class T>
void SwiGlu<T>::OnCuda(Device& device) const {
  LaunchPackLoop<T>(device, "SwiGlu", n, ArePacked(gate, up, y),
                    [*this] __device__(auto numel, int64_t first) {
                      Wide<T> g[numel], u[numel];
                      Load(gate + first, g);
                      Load(up + first, u);
                      for (int i = 0; i < numel; ++i) u[i] *= Quotient(g[i], Wide<T>{1} + exp(-g[i]));
                      Store(y + first, u, false);
                    });
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGlu, OnCuda);

template <class T>
void SwiGluGrad<T>::OnCuda(Device& device) const {
  LaunchPackLoop<T>(device, "SwiGluGrad", n, ArePacked(gate, up, dy, dgate.data, dup.data),
                    [*this] __device__(auto numel, int64_t first) {
                      using W = Wide<T>;
                      W g[numel], u[numel], out_grad[numel];
                      Load(gate + first, g);
                      Load(up + first, u);
                      Load(dy + first, out_grad);
                      for (int i = 0; i < numel; ++i) {
                        const W s = Quotient(W{1}, W{1} + exp(-g[i]));
                        u[i] *= out_grad[i] * s * (W{1} + g[i] * (W{1} - s));
                        g[i] *= out_grad[i] * s;
                      }
                      StoreIfWanted(dup, first, g);
                      StoreIfWanted(dgate, first, u);
                    });
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGluGrad, OnCuda);

}  // namespace gradsync::model::kernels
