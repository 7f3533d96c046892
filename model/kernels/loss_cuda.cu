// Computes losses. Cross-entropy uses one block per row. Softmax and its gradient each need one pass over the
// logits in memory, because the second read of a row is from the caches. One block sums the losses, in f64,
// as on the CPU.

#include "model/kernels/loss.h"
#include "model/tensor/cuda_support.h"

namespace gradsync::model::kernels {

template <class T>
void CrossEntropy<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "LogSumExp", rows, [*this] __device__(int64_t row) {
    using W = Wide<T>;
    const T* in = logits + row * vocab;
    W largest = -INFINITY;
    for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) largest = LargestOf{}(Widen(in[i]), largest);
    largest = CombineBlock(largest, static_cast<W>(-INFINITY), LargestOf{});
    W sum = 0;
    for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) sum += exp(Widen(in[i]) - largest);
    sum = CombineBlock(sum, W{0}, SumOf{});
    if (threadIdx.x == 0) {
      max[row] = largest;
      log_sum[row] = log(sum);
    }
  });
  int64_t* const wrong_target = &Gpu(device).wrong_indices().target;
  LaunchBlocks(device, "MeanLoss", 1, [=, *this] __device__(int64_t) {
    double sum = 0;
    for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
      const int32_t target = targets[row];
      const bool valid = target >= 0 && target < vocab;
      if (!valid) *wrong_target = row + 1;
      sum += valid ? static_cast<double>(max[row] - Widen(logits[row * vocab + target]) + log_sum[row])
                   : static_cast<double>(NAN);
    }
    sum = CombineBlock(sum, 0.0, SumOf{});
    if (threadIdx.x == 0) *loss = static_cast<Wide<T>>(sum / static_cast<double>(rows));
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropy, OnCuda);

template <class T>
void CrossEntropyGrad<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "CrossEntropyGrad", rows, [*this] __device__(int64_t row) {
    using W = Wide<T>;
    const W factor = *dloss / static_cast<W>(rows);
    const int32_t target = targets[row];
    for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) {
      const W p = exp(Widen(logits[row * vocab + i]) - max[row] - log_sum[row]);
      Store(dlogits.data + row * vocab + i, (i == target ? p - W{1} : p) * factor, dlogits.accumulate);
    }
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropyGrad, OnCuda);

template <class T>
void SquaredError<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "SquaredError", 1, [*this] __device__(int64_t) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      const double error = static_cast<double>(Widen(x[i])) - static_cast<double>(target[i]);
      sum += error * error;
    }
    sum = CombineBlock(sum, 0.0, SumOf{});
    if (threadIdx.x == 0) *loss = static_cast<Wide<T>>(sum / static_cast<double>(n));
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredError, OnCuda);

template <class T>
void SquaredErrorGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "SquaredErrorGrad", n, [*this] __device__(int64_t i) {
    using W = Wide<T>;
    const W factor = W{2} / static_cast<W>(n) * *dloss;
    Store(dx.data + i, (Widen(x[i]) - target[i]) * factor, dx.accumulate);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredErrorGrad, OnCuda);

}  // namespace gradsync::model::kernels
