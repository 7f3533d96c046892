// Convolutions through cuDNN, with algorithms that give the same bits in every run.

#include <cudnn.h>

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "model/cuda_device.h"
#include "model/error.h"
#include "model/kernels/conv.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// More than this an algorithm that cuDNN proposes may not ask for as scratch.
constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

// Joins `what`, which the message then begins with, only if the call failed.
template <class... What>
void Check(cudnnStatus_t status, const What&... what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw CudaError(Join(what..., " failed: ", cudnnGetErrorString(status)));
}

// Whether cuDNN does not do this at all, for whatever reason: each has a number of its own in the thousand.
bool IsUnsupported(cudnnStatus_t status) {
  const int code = status;
  return code >= CUDNN_STATUS_NOT_SUPPORTED && code < CUDNN_STATUS_NOT_SUPPORTED + 1000;
}

// One of cuDNN's objects, destroyed with its owner.
template <class Handle, cudnnStatus_t (*Create)(Handle*), cudnnStatus_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() { Check(Create(&handle_), "making a description for cuDNN"); }
  ~Owned() { Destroy(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using Library = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using TensorDescription =
    Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescription =
    Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvDescription =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

struct Key {
  ConvShape shape;
  DType dtype;
  bool tf32;

  friend auto operator<=>(const Key&, const Key&) = default;
  std::string ToString() const {
    const ConvShape& s = shape;
    return Join(" of ", s.in.batch, "x", s.in.channels, "x", s.in.height, "x", s.in.width, " by ",
                s.out_channels, "x", s.in.channels, "x", s.size, "x", s.size, ", stride ", s.stride,
                ", padding ", s.padding, ", in ", tf32 ? "tf32" : Name(dtype));
  }
};

cudnnDataType_t TypeOf(DType dtype) {
  return dtype == DType::kF64    ? CUDNN_DATA_DOUBLE
         : dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

cudnnStatus_t Describe(const TensorDescription& description, cudnnDataType_t type,
                       const ActivationShape& shape) {
  return cudnnSetTensor4dDescriptor(description.get(), CUDNN_TENSOR_NCHW, type, static_cast<int>(shape.batch),
                                    static_cast<int>(shape.channels), static_cast<int>(shape.height),
                                    static_cast<int>(shape.width));
}

// What a convolution reads and writes.
struct Tensors {
  TensorDescription x, y;
  FilterDescription weight;
};

// What cuDNN has for each pass. kLastResorts are algorithms that its documentation calls deterministic and
// lists for all of our types in NCHW.
struct Forward {
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr std::string_view kName = "conv2d";
  static constexpr std::array kLastResorts = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
  static constexpr auto kPropose = cudnnGetConvolutionForwardAlgorithm_v7;
  static constexpr auto kWorkspaceBytes = cudnnGetConvolutionForwardWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionForward;
  static auto Operands(const Tensors& t) { return std::tuple(t.x.get(), t.weight.get(), t.y.get()); }
};

struct WeightGrad {
  using Proposal = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr std::string_view kName = "the weight gradient of conv2d";
  static constexpr std::array kLastResorts = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
  static constexpr auto kPropose = cudnnGetConvolutionBackwardFilterAlgorithm_v7;
  static constexpr auto kWorkspaceBytes = cudnnGetConvolutionBackwardFilterWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardFilter;
  static auto Operands(const Tensors& t) { return std::tuple(t.x.get(), t.y.get(), t.weight.get()); }
};

struct InputGrad {
  using Proposal = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr std::string_view kName = "the input gradient of conv2d";
  static constexpr std::array kLastResorts = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
  static constexpr auto kPropose = cudnnGetConvolutionBackwardDataAlgorithm_v7;
  static constexpr auto kWorkspaceBytes = cudnnGetConvolutionBackwardDataWorkspaceSize;
  static constexpr auto kRun = cudnnConvolutionBackwardData;
  static auto Operands(const Tensors& t) { return std::tuple(t.weight.get(), t.y.get(), t.x.get()); }
};

// One pass of one convolution, ready to run, with a description of its own: the math type is part of it, and
// what an algorithm needs depends on that.
template <class Pass>
class Plan {
 public:
  Plan(cudnnHandle_t library, const Key& key) : key_(key) {
    const cudnnDataType_t type = TypeOf(key.dtype);
    const ConvShape& shape = key.shape;
    const int size = static_cast<int>(shape.size), stride = static_cast<int>(shape.stride),
              padding = static_cast<int>(shape.padding);
    Check(Describe(tensors_.x, type, shape.in), Pass::kName, key, ": its input's description");
    Check(Describe(tensors_.y, type, shape.out()), Pass::kName, key, ": its output's description");
    Check(cudnnSetFilter4dDescriptor(tensors_.weight.get(), type, CUDNN_TENSOR_NCHW,
                                     static_cast<int>(shape.out_channels),
                                     static_cast<int>(shape.in.channels), size, size),
          Pass::kName, key, ": its weight's description");
    Check(cudnnSetConvolution2dDescriptor(conv_.get(), padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, TypeOf(WideDType(key.dtype))),
          Pass::kName, key, ": its description");
    ListChoices(library);
    Choose(library);
  }

  // result = or += the pass's result of the operands a and b, in the order of Pass::Operands.
  template <class T>
  void Run(Device& device, cudnnHandle_t library, const T* a, const T* b, T* result, bool accumulate) {
    const Wide<T> one = 1, keep = accumulate ? 1 : 0;
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    for (;; Choose(library)) {
      const Scratch<char> workspace(device, static_cast<int64_t>(workspace_bytes_));
      const cudnnStatus_t status = Pass::kRun(library, &one, of_a, a, of_b, b, conv_.get(), algorithm_,
                                              workspace.data(), workspace_bytes_, &keep, of_result, result);
      if (!IsUnsupported(status)) return Check(status, Pass::kName, key_);
      refusal_ = status;  // a proposal is a guess; nothing has been written
    }
  }

 private:
  using Algorithm = decltype(Pass::Proposal::algo);

  struct Choice {
    Algorithm algorithm;
    cudnnMathType_t math;
    size_t max_workspace_bytes;
  };

  // The deterministic algorithms that cuDNN proposes, fastest first, then the last resorts.
  void ListChoices(cudnnHandle_t library) {
    // The default lets f32 become TF32, and bf16 go to tensor cores.
    const bool tensor_cores = key_.tf32 || key_.dtype == DType::kBF16;
    const cudnnMathType_t wanted = tensor_cores ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    Check(cudnnSetConvolutionMathType(conv_.get(), wanted), "cudnnSetConvolutionMathType");
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    std::array<typename Pass::Proposal, 16> found{};
    int count = 0;
    const cudnnStatus_t status = Pass::kPropose(library, of_a, of_b, conv_.get(), of_result,
                                                static_cast<int>(found.size()), &count, found.data());
    if (!IsUnsupported(status)) Check(status, "algorithms for ", Pass::kName, key_);
    for (int i = 0; i < count; ++i) {
      const auto& proposal = found[static_cast<size_t>(i)];
      if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC) continue;
      // Where FMA was asked for, an algorithm that knows nothing else comes back as one of the default.
      const bool has_fma = proposal.mathType == CUDNN_FMA_MATH || proposal.mathType == CUDNN_DEFAULT_MATH;
      if (!tensor_cores && !has_fma) continue;
      if (proposal.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) continue;  // rounds to f16
      choices_.push_back({proposal.algo, tensor_cores ? proposal.mathType : wanted, kMaxWorkspaceBytes});
    }
    for (const cudnnMathType_t math : {wanted, CUDNN_FMA_MATH}) {
      for (const Algorithm algorithm : Pass::kLastResorts) choices_.push_back({algorithm, math, SIZE_MAX});
    }
  }

  // Takes the next choice. Its workspace is what cuDNN says of this algorithm with this math type: what came
  // with a proposal was for the proposal's.
  void Choose(cudnnHandle_t library) {
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    for (; !choices_.empty(); choices_.pop_front()) {
      const Choice& choice = choices_.front();
      Check(cudnnSetConvolutionMathType(conv_.get(), choice.math), "cudnnSetConvolutionMathType");
      const cudnnStatus_t status = Pass::kWorkspaceBytes(library, of_a, of_b, conv_.get(), of_result,
                                                         choice.algorithm, &workspace_bytes_);
      if (IsUnsupported(status)) {
        refusal_ = status;
        continue;
      }
      Check(status, "the workspace of ", Pass::kName, key_);
      if (workspace_bytes_ > choice.max_workspace_bytes) continue;
      algorithm_ = choice.algorithm;
      choices_.pop_front();
      return;
    }
    throw CudaError(Join(Pass::kName, key_,
                         ": cuDNN has no deterministic algorithm for it, the last answer was ",
                         cudnnGetErrorString(refusal_)));
  }

  const Key key_;
  Tensors tensors_;
  ConvDescription conv_;
  std::deque<Choice> choices_;  // those not yet taken
  Algorithm algorithm_{};
  size_t workspace_bytes_ = 0;
  cudnnStatus_t refusal_ = CUDNN_STATUS_SUCCESS;  // the last
};

// The device's convolutions. Each pass is planned when it first runs, because the first layer never computes
// its input's gradient.
class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    Check(cudnnSetStream(library_.get(), device_.compute_stream().get()), "cudnnSetStream");
  }

  template <class Pass, class T>
  void Run(const ConvShape& shape, const T* a, const T* b, T* result, bool accumulate) {
    Require(shape.in.block == 1 && shape.out_block == 1, "conv2d: channels in blocks of ", shape.in.block,
            " and ", shape.out_block, ", on CUDA expected 1 and 1");
    const bool tf32 = std::is_same_v<T, float> && device_.allow_tf32();
    const Key key{.shape = shape, .dtype = kDTypeOf<T>, .tf32 = tf32};
    auto& plans = std::get<std::map<Key, Plan<Pass>>>(plans_);
    auto plan = plans.find(key);
    if (plan == plans.end()) plan = plans.try_emplace(key, library_.get(), key).first;
    plan->second.Run(device_, library_.get(), a, b, result, accumulate);
  }

 private:
  CudaDevice& device_;
  const Library library_;
  std::tuple<std::map<Key, Plan<Forward>>, std::map<Key, Plan<WeightGrad>>, std::map<Key, Plan<InputGrad>>>
      plans_;
};

Plans& PlansOf(Device& device) {
  static_cast<CudaDevice&>(device).MakeCurrent();
  return device.Resource<Plans>();
}

}  // namespace

template <class T>
void Conv2d<T>::OnCuda(Device& device) const {
  PlansOf(device).Run<Forward>(shape, x, weight, y, /*accumulate=*/false);
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2d, OnCuda);

template <class T>
void Conv2dWeightGrad<T>::OnCuda(Device& device) const {
  Plans& plans = PlansOf(device);
  if constexpr (std::is_same_v<T, BF16>) {
    // From operands in bf16 cuDNN writes bf16 only.
    const Scratch<BF16> rounded(device, shape.weight_numel());
    plans.Run<WeightGrad>(shape, x, dy, rounded.data(), /*accumulate=*/false);
    Cast<BF16, float>{.x = rounded.data(), .n = shape.weight_numel(), .y = dweight}.OnCuda(device);
  } else {
    plans.Run<WeightGrad>(shape, x, dy, dweight.data, dweight.accumulate);
  }
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dWeightGrad, OnCuda);

template <class T>
void Conv2dInputGrad<T>::OnCuda(Device& device) const {
  PlansOf(device).Run<InputGrad>(shape, weight, dy, dx.data, dx.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
