// Updates many tensors in one launch, because most tensors are small and a launch costs as much as a million
// elements. The table of tensors is an argument of the kernel, so nothing is copied to the GPU beforehand.

#include "model/kernels/optimizer.h"
#include "model/tensor/cuda_support.h"

namespace gradsync::model::kernels {
namespace {

// The number of elements of one tensor that a block updates.
constexpr int64_t kBlockNumel = 16 * kThreads;

// Some tensors of a step, and the blocks of the grid that update each of them. Its size is below 4 KiB, the
// limit for arguments.
template <class T>
struct Group {
  static constexpr int kMax = 64;

  UpdatedTensor<T> tensors[kMax];
  int64_t end_block[kMax];  // one past the last block of each tensor
};

// The group stays in the constant memory of the arguments, which can be indexed. `ptxas -v` shows no stack,
// which a copy for each thread would need.
template <bool kScaled, class Rule, class T>
__global__ void UpdateKernel(Group<T> group, Rule rule, T grad_scale) {
  int which = 0;
  while (blockIdx.x >= group.end_block[which]) ++which;
  const int64_t first_block = which == 0 ? 0 : group.end_block[which - 1];
  const UpdatedTensor<T>& tensor = group.tensors[which];
  const int64_t begin = (blockIdx.x - first_block) * kBlockNumel;
  const int64_t end = begin + kBlockNumel < tensor.n ? begin + kBlockNumel : tensor.n;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const T value = UpdateElement<kScaled>(rule, tensor, grad_scale, i);
    if (tensor.copy != nullptr) tensor.copy[i] = Narrow<BF16>(static_cast<float>(value));
  }
}

}  // namespace

template <template <class> class Rule, class T>
void Update<Rule, T>::OnCuda(Device& device) const {
  Group<T> group;
  int count = 0;
  int64_t blocks = 0;
  const auto launch = [&] {
    const auto kernel = grad_scale == 1 ? UpdateKernel<false, Rule<T>, T> : UpdateKernel<true, Rule<T>, T>;
    Launch(device, "Update", kernel, blocks, kThreads, 0, group, rule, grad_scale);
    count = 0;
    blocks = 0;
  };
  for (const UpdatedTensor<T>& tensor : tensors) {
    if (tensor.n == 0) continue;
    blocks += (tensor.n + kBlockNumel - 1) / kBlockNumel;
    group.tensors[count] = tensor;
    group.end_block[count] = blocks;
    if (++count == Group<T>::kMax) launch();
  }
  if (count > 0) launch();
}
GRADSYNC_INSTANTIATE_UPDATE(OnCuda);

}  // namespace gradsync::model::kernels
