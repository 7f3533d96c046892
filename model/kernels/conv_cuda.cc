// Convolutions through cuDNN, with algorithms that give the same bits in every run.

#include <cudnn.h>

#include <array>
#include <compare>
#include <map>
#include <string_view>
#include <type_traits>

#include "model/cuda_device.h"
#include "model/error.h"
#include "model/kernels/conv.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// More than this an algorithm may not ask for as scratch.
constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

void Check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) throw CudaError(Join(call, " failed: ", cudnnGetErrorString(status)));
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
};

cudnnDataType_t TypeOf(DType dtype) {
  return dtype == DType::kF64    ? CUDNN_DATA_DOUBLE
         : dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

void Describe(const TensorDescription& description, cudnnDataType_t type, const ActivationShape& shape) {
  Check(cudnnSetTensor4dDescriptor(description.get(), CUDNN_TENSOR_NCHW, type, static_cast<int>(shape.batch),
                                   static_cast<int>(shape.channels), static_cast<int>(shape.height),
                                   static_cast<int>(shape.width)),
        "cudnnSetTensor4dDescriptor");
}

// Of the algorithms that cuDNN proposes, fastest first, the first that will do.
template <class Algorithm, class Propose>
Algorithm Choose(const char* call, cudnnMathType_t math, const Propose& propose) {
  std::array<Algorithm, 16> found{};
  int count = 0;
  Check(propose(static_cast<int>(found.size()), &count, found.data()), call);
  for (int i = 0; i < count; ++i) {
    const Algorithm& candidate = found[static_cast<size_t>(i)];
    const bool same_math = math == CUDNN_DEFAULT_MATH || candidate.mathType == CUDNN_FMA_MATH ||
                           candidate.mathType == CUDNN_DEFAULT_MATH;
    if (candidate.status == CUDNN_STATUS_SUCCESS && candidate.determinism == CUDNN_DETERMINISTIC &&
        same_math && candidate.memory <= kMaxWorkspaceBytes) {
      return candidate;
    }
  }
  throw CudaError(Join(call, ": cuDNN has no deterministic algorithm for this convolution"));
}

// The three passes of one convolution, ready to run.
class Plan {
 public:
  Plan(cudnnHandle_t library, const Key& key) {
    const cudnnDataType_t type = TypeOf(key.dtype);
    const ConvShape& shape = key.shape;
    const int size = static_cast<int>(shape.size), stride = static_cast<int>(shape.stride),
              padding = static_cast<int>(shape.padding);
    Describe(x_, type, shape.in);
    Describe(y_, type, shape.out());
    Check(cudnnSetFilter4dDescriptor(weight_.get(), type, CUDNN_TENSOR_NCHW,
                                     static_cast<int>(shape.out_channels),
                                     static_cast<int>(shape.in.channels), size, size),
          "cudnnSetFilter4dDescriptor");
    Check(cudnnSetConvolution2dDescriptor(conv_.get(), padding, padding, stride, stride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, TypeOf(WideDType(key.dtype))),
          "cudnnSetConvolution2dDescriptor");
    // The default lets f32 become TF32, and bf16 go to tensor cores.
    const bool tensor_cores = key.tf32 || key.dtype == DType::kBF16;
    const cudnnMathType_t math = tensor_cores ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    Check(cudnnSetConvolutionMathType(conv_.get(), math), "cudnnSetConvolutionMathType");
    forward_ = Choose<cudnnConvolutionFwdAlgoPerf_t>(
        "cudnnGetConvolutionForwardAlgorithm_v7", math, [&](int max, int* count, auto* found) {
          return cudnnGetConvolutionForwardAlgorithm_v7(library, x_.get(), weight_.get(), conv_.get(),
                                                        y_.get(), max, count, found);
        });
    weight_grad_ = Choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        "cudnnGetConvolutionBackwardFilterAlgorithm_v7", math, [&](int max, int* count, auto* found) {
          return cudnnGetConvolutionBackwardFilterAlgorithm_v7(library, x_.get(), y_.get(), conv_.get(),
                                                               weight_.get(), max, count, found);
        });
    input_grad_ = Choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        "cudnnGetConvolutionBackwardDataAlgorithm_v7", math, [&](int max, int* count, auto* found) {
          return cudnnGetConvolutionBackwardDataAlgorithm_v7(library, weight_.get(), y_.get(), conv_.get(),
                                                             x_.get(), max, count, found);
        });
  }

  template <class T>
  void Forward(Device& device, cudnnHandle_t library, const T* x, const T* weight, T* y) const {
    const Wide<T> one = 1, zero = 0;
    const Scratch<char> workspace(device, static_cast<int64_t>(forward_.memory));
    Check(cudnnConvolutionForward(library, &one, x_.get(), x, weight_.get(), weight, conv_.get(),
                                  forward_.algo, workspace.data(), forward_.memory, &zero, y_.get(), y),
          "cudnnConvolutionForward");
  }

  template <class T>
  void WeightGrad(Device& device, cudnnHandle_t library, const T* x, const T* dy, T* dweight,
                  bool accumulate) const {
    const Wide<T> one = 1, keep = accumulate ? 1 : 0;
    const Scratch<char> workspace(device, static_cast<int64_t>(weight_grad_.memory));
    Check(cudnnConvolutionBackwardFilter(library, &one, x_.get(), x, y_.get(), dy, conv_.get(),
                                         weight_grad_.algo, workspace.data(), weight_grad_.memory, &keep,
                                         weight_.get(), dweight),
          "cudnnConvolutionBackwardFilter");
  }

  template <class T>
  void InputGrad(Device& device, cudnnHandle_t library, const T* weight, const T* dy, T* dx,
                 bool accumulate) const {
    const Wide<T> one = 1, keep = accumulate ? 1 : 0;
    const Scratch<char> workspace(device, static_cast<int64_t>(input_grad_.memory));
    Check(cudnnConvolutionBackwardData(library, &one, weight_.get(), weight, y_.get(), dy, conv_.get(),
                                       input_grad_.algo, workspace.data(), input_grad_.memory, &keep,
                                       x_.get(), dx),
          "cudnnConvolutionBackwardData");
  }

 private:
  TensorDescription x_, y_;
  FilterDescription weight_;
  ConvDescription conv_;
  cudnnConvolutionFwdAlgoPerf_t forward_{};
  cudnnConvolutionBwdFilterAlgoPerf_t weight_grad_{};
  cudnnConvolutionBwdDataAlgoPerf_t input_grad_{};
};

// The device's convolutions.
class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    Check(cudnnSetStream(library_.get(), device_.compute_stream().get()), "cudnnSetStream");
  }

  template <class T>
  const Plan& Get(const ConvShape& shape) {
    Require(shape.in.block == 1 && shape.out_block == 1, "conv2d: channels in blocks of ", shape.in.block,
            " and ", shape.out_block, ", on CUDA expected 1 and 1");
    const bool tf32 = std::is_same_v<T, float> && device_.allow_tf32();
    const Key key{.shape = shape, .dtype = kDTypeOf<T>, .tf32 = tf32};
    auto plan = plans_.find(key);
    if (plan == plans_.end()) plan = plans_.try_emplace(key, library_.get(), key).first;
    return plan->second;
  }

  cudnnHandle_t library() const { return library_.get(); }

 private:
  CudaDevice& device_;
  const Library library_;
  std::map<Key, Plan> plans_;
};

Plans& PlansOf(Device& device) {
  static_cast<CudaDevice&>(device).MakeCurrent();
  return device.Resource<Plans>();
}

}  // namespace

template <class T>
void Conv2d<T>::OnCuda(Device& device) const {
  Plans& plans = PlansOf(device);
  plans.Get<T>(shape).Forward(device, plans.library(), x, weight, y);
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2d, OnCuda);

template <class T>
void Conv2dWeightGrad<T>::OnCuda(Device& device) const {
  Plans& plans = PlansOf(device);
  if constexpr (std::is_same_v<T, BF16>) {
    // Of operands in bf16 cuDNN writes none but bf16.
    const Scratch<BF16> rounded(device, shape.weight_numel());
    plans.Get<T>(shape).WeightGrad(device, plans.library(), x, dy, rounded.data(), /*accumulate=*/false);
    Cast<BF16, float>{.x = rounded.data(), .n = shape.weight_numel(), .y = dweight}.OnCuda(device);
  } else {
    plans.Get<T>(shape).WeightGrad(device, plans.library(), x, dy, dweight.data, dweight.accumulate);
  }
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dWeightGrad, OnCuda);

template <class T>
void Conv2dInputGrad<T>::OnCuda(Device& device) const {
  Plans& plans = PlansOf(device);
  plans.Get<T>(shape).InputGrad(device, plans.library(), weight, dy, dx.data, dx.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
