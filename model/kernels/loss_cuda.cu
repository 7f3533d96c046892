// Losses. Cross-entropy takes a block per row: softmax and its gradient in one pass each over the logits in
// memory (the second reading of a row comes from the caches). Losses are summed by one block, in f64, as on
// the CPU.

#include "model/kernels/cuda_support.h"
#include "model/kernels/loss.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
__global__ void LogSumExpKernel(CrossEntropy<T> op) {
  using W = Wide<T>;
  const T* in = op.logits + blockIdx.x * op.vocab;
  W max = -INFINITY;
  for (int64_t i = threadIdx.x; i < op.vocab; i += blockDim.x) max = LargestOf{}(Widen(in[i]), max);
  max = CombineBlock(max, static_cast<W>(-INFINITY), LargestOf{});
  W sum = 0;
  for (int64_t i = threadIdx.x; i < op.vocab; i += blockDim.x) sum += exp(Widen(in[i]) - max);
  sum = CombineBlock(sum, W{0}, SumOf{});
  if (threadIdx.x == 0) op.log_sum_exp[blockIdx.x] = max + log(sum);
}

template <class T>
__global__ void MeanLossKernel(CrossEntropy<T> op, int64_t* wrong_target) {
  double sum = 0;
  for (int64_t row = threadIdx.x; row < op.rows; row += blockDim.x) {
    const int32_t target = op.targets[row];
    const bool valid = target >= 0 && target < op.vocab;
    if (!valid) *wrong_target = row + 1;
    sum += valid ? static_cast<double>(op.log_sum_exp[row] - Widen(op.logits[row * op.vocab + target]))
                 : static_cast<double>(NAN);
  }
  sum = CombineBlock(sum, 0.0, SumOf{});
  if (threadIdx.x == 0) *op.loss = static_cast<Wide<T>>(sum / static_cast<double>(op.rows));
}

template <class T>
__global__ void CrossEntropyGradKernel(CrossEntropyGrad<T> op) {
  using W = Wide<T>;
  const int64_t row = blockIdx.x;
  const W factor = *op.dloss / static_cast<W>(op.rows);
  const W shift = op.log_sum_exp[row];
  const int32_t target = op.targets[row];
  for (int64_t i = threadIdx.x; i < op.vocab; i += blockDim.x) {
    const W p = exp(Widen(op.logits[row * op.vocab + i]) - shift);
    Store(op.dlogits.data + row * op.vocab + i, (i == target ? p - W{1} : p) * factor, op.dlogits.accumulate);
  }
}

template <class T>
__global__ void SquaredErrorKernel(SquaredError<T> op) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < op.n; i += blockDim.x) {
    const double error = static_cast<double>(Widen(op.x[i])) - static_cast<double>(op.target[i]);
    sum += error * error;
  }
  sum = CombineBlock(sum, 0.0, SumOf{});
  if (threadIdx.x == 0) *op.loss = static_cast<Wide<T>>(sum / static_cast<double>(op.n));
}

template <class T>
__global__ void SquaredErrorGradKernel(SquaredErrorGrad<T> op) {
  using W = Wide<T>;
  const W factor = W{2} / static_cast<W>(op.n) * *op.dloss;
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) {
    Store(op.dx.data + i, (Widen(op.x[i]) - op.target[i]) * factor, op.dx.accumulate);
  }
}

}  // namespace

template <class T>
void CrossEntropy<T>::OnCuda(Device& device) const {
  Launch(device, "LogSumExp", LogSumExpKernel<T>, rows, kThreads, 0, *this);
  Launch(device, "MeanLoss", MeanLossKernel<T>, 1, kThreads, 0, *this, &Gpu(device).wrong_indices().target);
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropy, OnCuda);

template <class T>
void CrossEntropyGrad<T>::OnCuda(Device& device) const {
  Launch(device, "CrossEntropyGrad", CrossEntropyGradKernel<T>, rows, kThreads, 0, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropyGrad, OnCuda);

template <class T>
void SquaredError<T>::OnCuda(Device& device) const {
  Launch(device, "SquaredError", SquaredErrorKernel<T>, 1, kThreads, 0, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredError, OnCuda);

template <class T>
void SquaredErrorGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "SquaredErrorGrad", SquaredErrorGradKernel<T>, n, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredErrorGrad, OnCuda);

}  // namespace gradsync::model::kernels
