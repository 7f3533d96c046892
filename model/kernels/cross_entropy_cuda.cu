// Cross-entropy with a block per row: softmax and its gradient in one pass each over the logits in memory
// (the second reading of a row comes from the caches).

#include "model/kernels/cross_entropy.h"
#include "model/kernels/cuda_support.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
__global__ void LogSumExpKernel(const T* logits,  // (rows, vocab)
                                int64_t vocab,
                                Wide<T>* log_sum_exp) {  // (rows)
  using W = Wide<T>;
  const T* in = logits + blockIdx.x * vocab;
  W max = -INFINITY;
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) max = LargestOf{}(Widen(in[i]), max);
  max = CombineBlock(max, static_cast<W>(-INFINITY), LargestOf{});
  W sum = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) sum += exp(Widen(in[i]) - max);
  sum = CombineBlock(sum, W{0}, SumOf{});
  if (threadIdx.x == 0) log_sum_exp[blockIdx.x] = max + log(sum);
}

// One block. Sums in f64, as on the CPU.
template <class T>
__global__ void MeanLossKernel(const T* logits,             // (rows, vocab)
                               const int32_t* targets,      // (rows)
                               const Wide<T>* log_sum_exp,  // (rows)
                               int64_t rows, int64_t vocab, Wide<T>* loss,
                               int64_t* wrong_target) {  // one past its place, if there is one
  double sum = 0;
  for (int64_t row = threadIdx.x; row < rows; row += blockDim.x) {
    const int32_t target = targets[row];
    const bool valid = target >= 0 && target < vocab;
    if (!valid) *wrong_target = row + 1;
    sum += valid ? static_cast<double>(log_sum_exp[row] - Widen(logits[row * vocab + target]))
                 : static_cast<double>(NAN);
  }
  sum = CombineBlock(sum, 0.0, SumOf{});
  if (threadIdx.x == 0) *loss = static_cast<Wide<T>>(sum / static_cast<double>(rows));
}

template <class T>
__global__ void CrossEntropyGradKernel(const T* logits,             // (rows, vocab)
                                       const int32_t* targets,      // (rows)
                                       const Wide<T>* log_sum_exp,  // (rows)
                                       const Wide<T>* dloss,        // one
                                       int64_t rows, int64_t vocab,
                                       T* dlogits,  // (rows, vocab)
                                       bool accumulate) {
  using W = Wide<T>;
  const int64_t row = blockIdx.x;
  const W factor = *dloss / static_cast<W>(rows);
  const W shift = log_sum_exp[row];
  const int32_t target = targets[row];
  for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) {
    const W p = exp(Widen(logits[row * vocab + i]) - shift);
    Store(dlogits + row * vocab + i, (i == target ? p - W{1} : p) * factor, accumulate);
  }
}

}  // namespace

template <class T>
void CrossEntropy<T>::OnCuda(Device& device) const {
  Launch(device, "LogSumExp", LogSumExpKernel<T>, rows, kThreads, 0, logits, vocab, log_sum_exp);
  Launch(device, "MeanLoss", MeanLossKernel<T>, 1, kThreads, 0, logits, targets, log_sum_exp, rows, vocab,
         loss, &Gpu(device).wrong_indices().target);
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropy, OnCuda);

template <class T>
void CrossEntropyGrad<T>::OnCuda(Device& device) const {
  Launch(device, "CrossEntropyGrad", CrossEntropyGradKernel<T>, rows, kThreads, 0, logits, targets,
         log_sum_exp, dloss, rows, vocab, dlogits.data, dlogits.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropyGrad, OnCuda);

}  // namespace gradsync::model::kernels
