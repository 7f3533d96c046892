// Computes convolutions by cuDNN, with algorithms that give bitwise equal results in every run.

#include <cudnn.h>

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "model/base/error.h"
#include "model/kernels/conv.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/elementwise.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// The maximum scratch memory of an algorithm that cuDNN proposes.
constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

// Throws if the call failed. Only then joins `what`, with which the message begins.
template <class... What>
void Check(cudnnStatus_t status, const What&... what) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw CudaError(Join(what..., " failed: ", cudnnGetErrorString(status)));
}

// Returns whether cuDNN does not support the operation. Each reason has its own number within one thousand.
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

// Returns whether channels are the innermost dimension of all operands. Then the image of the first layer is
// a copy.
bool IsNhwc(const ConvShape& shape) { return shape.in.block > 1 || shape.out_block > 1; }

struct Key {
  ConvShape shape;
  DType dtype;
  bool tf32;

  friend auto operator<=>(const Key&, const Key&) = default;
  std::string ToString() const {
    const ConvShape& s = shape;
    return Join(" of ", s.in.batch, "x", s.in.channels, "x", s.in.height, "x", s.in.width, " by ",
                s.out_channels, "x", s.in.channels, "x", s.size, "x", s.size, ", stride ", s.stride,
                ", padding ", s.padding, ", in ", tf32 ? "tf32" : Name(dtype),
                IsNhwc(s) ? ", channels innermost" : "");
  }
};

cudnnDataType_t TypeOf(DType dtype) { return dtype == DType::kF64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }

cudnnTensorFormat_t FormatOf(const ConvShape& shape) {
  return IsNhwc(shape) ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

cudnnStatus_t Describe(const TensorDescription& description, cudnnDataType_t type, cudnnTensorFormat_t format,
                       const ActivationShape& shape) {
  return cudnnSetTensor4dDescriptor(description.get(), format, type, static_cast<int>(shape.batch),
                                    static_cast<int>(shape.channels), static_cast<int>(shape.height),
                                    static_cast<int>(shape.width));
}

// The tensors that a convolution reads and writes.
struct Tensors {
  TensorDescription x, y;
  FilterDescription weight;
};

// The types and functions of cuDNN for each pass. kLastResorts are algorithms that cuDNN's documentation
// calls deterministic and lists for all of our types in NCHW.
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

// One pass of one convolution, ready to run. It has its own descriptor, because the descriptor contains the
// math type, and the workspace of an algorithm depends on the math type.
template <class Pass>
class Plan {
 public:
  Plan(cudnnHandle_t library, const Key& key) : library_(library), key_(key) {
    const cudnnDataType_t type = TypeOf(key.dtype);
    const ConvShape& shape = key.shape;
    const int size = static_cast<int>(shape.size), stride = static_cast<int>(shape.stride),
              padding = static_cast<int>(shape.padding);
    const cudnnTensorFormat_t format = FormatOf(shape);
    Check(Describe(tensors_.x, type, format, shape.in), Pass::kName, key, ": its input's description");
    Check(Describe(tensors_.y, type, format, shape.out()), Pass::kName, key, ": its output's description");
    Check(
        cudnnSetFilter4dDescriptor(tensors_.weight.get(), type, format, static_cast<int>(shape.out_channels),
                                   static_cast<int>(shape.in.channels), size, size),
        Pass::kName, key, ": its weight's description");
    Check(cudnnSetConvolution2dDescriptor(conv_.get(), padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, type),
          Pass::kName, key, ": its description");
    ListChoices();
    Choose();
  }

  // Sets `result` to the pass's result for the operands a and b, or adds this to `result`. The operands are
  // in the order of Pass::Operands.
  template <class T>
  void Run(Device& device, const T* a, const T* b, T* result, bool accumulate) {
    const Wide<T> one = 1, keep = accumulate ? 1 : 0;
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    for (;; Choose()) {
      const Scratch<char> workspace(device, static_cast<int64_t>(workspace_bytes_));
      const cudnnStatus_t status = Pass::kRun(library_, &one, of_a, a, of_b, b, conv_.get(), algorithm_,
                                              workspace.data(), workspace_bytes_, &keep, of_result, result);
      if (!IsUnsupported(status)) return Check(status, Pass::kName, key_);
      refusal_ = status;  // proposals are guesses, and nothing has been written
    }
  }

 private:
  using Algorithm = decltype(Pass::Proposal::algo);

  struct Choice {
    Algorithm algorithm;
    cudnnMathType_t math;
    size_t max_workspace_bytes;
  };

  // Lists the deterministic algorithms that cuDNN proposes, beginning with the fastest, and then the last
  // resorts.
  void ListChoices() {
    // The default allows rounding f32 to TF32.
    const cudnnMathType_t wanted = key_.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    Check(cudnnSetConvolutionMathType(conv_.get(), wanted), "cudnnSetConvolutionMathType");
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    std::array<typename Pass::Proposal, 16> found{};
    int count = 0;
    const cudnnStatus_t status = Pass::kPropose(library_, of_a, of_b, conv_.get(), of_result,
                                                static_cast<int>(found.size()), &count, found.data());
    if (!IsUnsupported(status)) Check(status, "algorithms for ", Pass::kName, key_);
    for (int i = 0; i < count; ++i) {
      const auto& proposal = found[static_cast<size_t>(i)];
      if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC) continue;
      // If FMA was requested, an algorithm that has only FMA is returned with the default math type.
      const bool has_fma = proposal.mathType == CUDNN_FMA_MATH || proposal.mathType == CUDNN_DEFAULT_MATH;
      if (!key_.tf32 && !has_fma) continue;
      if (proposal.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) continue;  // rounds to f16
      choices_.push_back({proposal.algo, key_.tf32 ? proposal.mathType : wanted, kMaxWorkspaceBytes});
    }
    for (const cudnnMathType_t math : {wanted, CUDNN_FMA_MATH}) {
      for (const Algorithm algorithm : Pass::kLastResorts) choices_.push_back({algorithm, math, SIZE_MAX});
    }
  }

  // Selects the next choice. Queries cuDNN for its workspace with this math type, because the workspace in a
  // proposal is for the proposal's math type.
  void Choose() {
    const auto [of_a, of_b, of_result] = Pass::Operands(tensors_);
    for (; !choices_.empty(); choices_.pop_front()) {
      const Choice& choice = choices_.front();
      Check(cudnnSetConvolutionMathType(conv_.get(), choice.math), "cudnnSetConvolutionMathType");
      const cudnnStatus_t status = Pass::kWorkspaceBytes(library_, of_a, of_b, conv_.get(), of_result,
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

  const cudnnHandle_t library_;
  const Key key_;
  Tensors tensors_;
  ConvDescription conv_;
  std::deque<Choice> choices_;  // choices that have not been tried
  Algorithm algorithm_{};
  size_t workspace_bytes_ = 0;
  cudnnStatus_t refusal_ = CUDNN_STATUS_SUCCESS;  // the last error
};

// The type in which numbers are multiplied. bf16 is multiplied as f32 on the tensor cores of TF32, which
// represents every bf16 number exactly. cuDNN's deterministic algorithms for bf16 are thirty times slower on
// an H200.
template <class T>
using Factor = std::conditional_t<std::is_same_v<T, BF16>, float, T>;

// The device's convolutions. Each pass is planned when it first runs, because the first layer never computes
// the gradient of its input.
class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    Check(cudnnSetStream(library_.get(), device_.compute_stream().get()), "cudnnSetStream");
  }

  // T is the type of the activations. If the pass is impossible, throws before anything is copied.
  template <class Pass, class T>
  Plan<Pass>& Get(const ConvShape& shape) {
    const bool all_in = shape.in.block == shape.in.channels, all_out = shape.out_block == shape.out_channels;
    Require(!IsNhwc(shape) || !std::is_same_v<T, double>,
            "conv2d: f64 on CUDA expects channels in blocks of 1");
    Require((shape.in.block == 1 || all_in) && (IsNhwc(shape) ? all_out : shape.out_block == 1),
            "conv2d: channels in blocks of ", shape.in.block, " and ", shape.out_block,
            ", on CUDA expected 1 or all, and all if either is");
    const bool tf32 = std::is_same_v<T, BF16> || (std::is_same_v<T, float> && device_.allow_tf32());
    const Key key{.shape = shape, .dtype = kDTypeOf<Factor<T>>, .tf32 = tf32};
    auto& plans = std::get<std::map<Key, Plan<Pass>>>(plans_);
    const auto plan = plans.find(key);
    return plan != plans.end() ? plan->second : plans.try_emplace(key, library_.get(), key).first->second;
  }

 private:
  CudaDevice& device_;
  const Library library_;
  std::tuple<std::map<Key, Plan<Forward>>, std::map<Key, Plan<WeightGrad>>, std::map<Key, Plan<InputGrad>>>
      plans_;
};

template <class Pass, class T>
Plan<Pass>& PlanOf(Device& device, const ConvShape& shape) {
  static_cast<CudaDevice&>(device).MakeCurrent();
  return device.Resource<Plans>().Get<Pass, T>(shape);
}

// Returns whether the orders (channels, pixels) and (pixels, channels) differ in memory.
bool HasOrder(int64_t channels, int64_t pixels) { return channels > 1 && pixels > 1; }

// An operand in the layout and type of cuDNN; a copy if necessary.
template <class T>
class Operand {
 public:
  // If `swapped`, x is (batch, channels, pixels), and cuDNN needs (batch, pixels, channels); else x already
  // has the correct order.
  Operand(Device& device, bool swapped, int64_t batch, int64_t channels, int64_t pixels, const T* x) {
    using To = Factor<T>;
    const int64_t numel = batch * channels * pixels;
    if constexpr (std::is_same_v<T, To>) data_ = x;
    if constexpr (!std::is_same_v<T, double>) {
      swapped = swapped && HasOrder(channels, pixels);
      if (std::is_same_v<T, To> && !swapped) return;
      const Destination<To*> copy{.data = copy_.emplace(device, numel).data()};
      data_ = copy.data;
      if (swapped) {
        SwapAxes<T, To>{.x = x, .batch = batch, .rows = channels, .cols = pixels, .y = copy}.OnCuda(device);
      } else if constexpr (!std::is_same_v<T, To>) {
        Cast<T, To>{.x = x, .n = numel, .y = copy}.OnCuda(device);
      }
    }
  }
  const Factor<T>* data() const { return data_; }

 private:
  const Factor<T>* data_ = nullptr;
  std::optional<Scratch<Factor<T>>> copy_;
};

template <class T>
Operand<T> InputOf(Device& device, const ConvShape& shape, const T* x) {
  return {device, IsNhwc(shape) && shape.in.block == 1, shape.in.batch, shape.in.channels, shape.in.pixels(),
          x};
}

template <class T>
Operand<T> WeightOf(Device& device, const ConvShape& shape, const T* weight) {
  return {device, IsNhwc(shape), shape.out_channels, shape.in.channels, shape.size * shape.size, weight};
}

template <class T>
Operand<T> OutputOf(Device& device, const ConvShape& shape, const T* y) {
  const ActivationShape out = shape.out();
  return {device, false, out.batch, out.channels, out.pixels(), y};
}

// Calls run(place, accumulate), and moves the result from `place`, which has the layout of an operand, to its
// destination in the layout of the destination.
template <class From, class To, class Run>
void IntoPlace(Device& device, bool swapped, int64_t batch, int64_t channels, int64_t pixels,
               const Destination<To*>& to, const Run& run) {
  swapped = swapped && HasOrder(channels, pixels);
  if constexpr (std::is_same_v<From, To>) {
    if (!swapped) return run(to.data, to.accumulate);
  }
  if constexpr (!std::is_same_v<From, double>) {
    const int64_t numel = batch * channels * pixels;
    const Scratch<From> scratch(device, numel);
    run(scratch.data(), /*accumulate=*/false);
    if (swapped) {
      SwapAxes<From, To>{.x = scratch.data(), .batch = batch, .rows = pixels, .cols = channels, .y = to}
          .OnCuda(device);
    } else if constexpr (!std::is_same_v<From, To>) {
      Cast<From, To>{.x = scratch.data(), .n = numel, .y = to}.OnCuda(device);
    }
  }
}

}  // namespace

template <class T>
void Conv2d<T>::OnCuda(Device& device) const {
  Plan<Forward>& plan = PlanOf<Forward, T>(device, shape);
  const auto input = InputOf(device, shape, x);
  const auto filter = WeightOf(device, shape, weight);
  const ActivationShape out = shape.out();
  IntoPlace<Factor<T>>(device, false, out.batch, out.channels, out.pixels(), Destination<T*>{.data = y},
                       [&](Factor<T>* place, bool accumulate) {
                         plan.Run(device, input.data(), filter.data(), place, accumulate);
                       });
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2d, OnCuda);

template <class T>
void Conv2dWeightGrad<T>::OnCuda(Device& device) const {
  Plan<WeightGrad>& plan = PlanOf<WeightGrad, T>(device, shape);
  const auto input = InputOf(device, shape, x);
  const auto output_grad = OutputOf(device, shape, dy);
  IntoPlace<Factor<T>>(device, IsNhwc(shape), shape.out_channels, shape.in.channels, shape.size * shape.size,
                       dweight, [&](Factor<T>* place, bool accumulate) {
                         plan.Run(device, input.data(), output_grad.data(), place, accumulate);
                       });
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dWeightGrad, OnCuda);

template <class T>
void Conv2dInputGrad<T>::OnCuda(Device& device) const {
  Plan<InputGrad>& plan = PlanOf<InputGrad, T>(device, shape);
  const auto filter = WeightOf(device, shape, weight);
  const auto output_grad = OutputOf(device, shape, dy);
  IntoPlace<Factor<T>>(device, IsNhwc(shape) && shape.in.block == 1, shape.in.batch, shape.in.channels,
                       shape.in.pixels(), dx, [&](Factor<T>* place, bool accumulate) {
                         plan.Run(device, filter.data(), output_grad.data(), place, accumulate);
                       });
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
