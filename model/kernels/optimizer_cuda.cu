// Optimizers: many tensors in one launch, as most are small and a launch costs as much as a million elements.
// The table of tensors is an argument of the kernel, so nothing is copied to the GPU beforehand.

#include "model/kernels/cuda_support.h"
#include "model/kernels/optimizer.h"

namespace gradsync::model::kernels {
namespace {

// A block takes this many elements of one tensor.
constexpr int64_t kBlockNumel = 16 * kThreads;

// Some tensors of a step, and which blocks of the grid are whose. Under 4 KiB, the limit for arguments.
template <class TensorT>
struct Group {
  static constexpr int kMax = 64;

  TensorT tensors[kMax];
  int64_t end_block[kMax];  // of each tensor, one past its last
};

// Calls update(tensor, i) for the elements of this block. The group stays in the constant memory of the
// arguments, which takes any index: `ptxas -v` shows no stack, where a copy for each thread would be.
template <class TensorT, class Update>
__device__ void ForElements(const Group<TensorT>& group, const Update& update) {
  int which = 0;
  while (blockIdx.x >= group.end_block[which]) ++which;
  const int64_t first_block = which == 0 ? 0 : group.end_block[which - 1];
  const TensorT& tensor = group.tensors[which];
  const int64_t begin = (blockIdx.x - first_block) * kBlockNumel;
  const int64_t end = begin + kBlockNumel < tensor.n ? begin + kBlockNumel : tensor.n;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) update(tensor, i);
}

// Splits a step's tensors into groups and launches kernel(group, args...) on each.
template <class TensorT, class Kernel, class... Args>
void LaunchGroups(const Device& device, const char* name, Kernel kernel, std::span<const TensorT> tensors,
                  const Args&... args) {
  Group<TensorT> group;
  int count = 0;
  int64_t blocks = 0;
  const auto launch = [&] {
    Launch(device, name, kernel, blocks, kThreads, 0, group, args...);
    count = 0;
    blocks = 0;
  };
  for (const TensorT& tensor : tensors) {
    if (tensor.n == 0) continue;
    blocks += (tensor.n + kBlockNumel - 1) / kBlockNumel;
    group.tensors[count] = tensor;
    group.end_block[count] = blocks;
    if (++count == Group<TensorT>::kMax) launch();
  }
  launch();
}

template <class T>
struct SgdUpdate {
  T rate, momentum;

  // What is read is read before anything is written: the compiler does not know that arrays do not overlap.
  __device__ void operator()(const SgdTensor<T>& t, int64_t i) const {
    const T before = t.value[i], g = t.grad[i];
    const T change = t.velocity != nullptr ? g + momentum * t.velocity[i] : g;
    const T value = before - rate * change;
    if (t.velocity != nullptr) t.velocity[i] = change;
    t.value[i] = value;
    if (t.copy != nullptr) t.copy[i] = Narrow<BF16>(static_cast<float>(value));
  }
};

template <class T>
__global__ void SgdKernel(Group<SgdTensor<T>> group, SgdUpdate<T> update) {
  ForElements(group, update);
}

template <class T>
struct AdamWUpdate {
  T decay, beta1, rest1, beta2, rest2, step_size, scale, eps;

  __device__ void operator()(const AdamWTensor<T>& t, int64_t i) const {
    const T before = t.value[i], g = t.grad[i];
    const T m = beta1 * t.mean[i] + rest1 * g;
    const T s = beta2 * t.square[i] + rest2 * g * g;
    const T value = decay * before - step_size * m / (scale * sqrt(s) + eps);
    t.mean[i] = m;
    t.square[i] = s;
    t.value[i] = value;
    if (t.copy != nullptr) t.copy[i] = Narrow<BF16>(static_cast<float>(value));
  }
};

template <class T>
__global__ void AdamWKernel(Group<AdamWTensor<T>> group, AdamWUpdate<T> update) {
  ForElements(group, update);
}

}  // namespace

template <class T>
void Sgd<T>::OnCuda(Device& device) const {
  const SgdUpdate<T> update{.rate = static_cast<T>(learning_rate), .momentum = static_cast<T>(momentum)};
  LaunchGroups(device, "Sgd", SgdKernel<T>, tensors, update);
}
template void Sgd<float>::OnCuda(Device&) const;
template void Sgd<double>::OnCuda(Device&) const;

template <class T>
void AdamW<T>::OnCuda(Device& device) const {
  const AdamWUpdate<T> update{.decay = static_cast<T>(factors.decay),
                              .beta1 = static_cast<T>(factors.beta1),
                              .rest1 = static_cast<T>(1 - factors.beta1),
                              .beta2 = static_cast<T>(factors.beta2),
                              .rest2 = static_cast<T>(1 - factors.beta2),
                              .step_size = static_cast<T>(factors.step_size),
                              .scale = static_cast<T>(factors.scale),
                              .eps = static_cast<T>(factors.eps)};
  LaunchGroups(device, "AdamW", AdamWKernel<T>, tensors, update);
}
template void AdamW<float>::OnCuda(Device&) const;
template void AdamW<double>::OnCuda(Device&) const;

}  // namespace gradsync::model::kernels
