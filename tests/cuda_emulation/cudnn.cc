#include <cudnn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include "tests/cuda_emulation/stream.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace cuda_emulation {

// Four dimensions. The innermost dimension is the last in NCHW, and c in NHWC. The n of a filter is its
// number of output channels.
struct Dimensions {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int64_t n, c, h, w;

  int64_t numel() const { return n * c * h * w; }
  int64_t At(int64_t in, int64_t ic, int64_t ih, int64_t iw) const {
    return format == CUDNN_TENSOR_NCHW ? ((in * c + ic) * h + ih) * w + iw
                                       : ((in * h + ih) * w + iw) * c + ic;
  }
};
}  // namespace cuda_emulation

struct cudnnTensorStruct : cuda_emulation::Dimensions {};
struct cudnnFilterStruct : cuda_emulation::Dimensions {};

struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w;
  cudnnDataType_t compute;
  cudnnMathType_t math;
};

namespace {

using cuda_emulation::Dimensions;
using Conv = cudnnConvolutionStruct;

// Algorithms by their behaviour. Algorithm 1, and in forward also algorithm 0, works.
constexpr int kWorks = 2;
constexpr int kIsNotDeterministic = 3;
constexpr int kHasNoWorkspace = 4;  // is not supported, and a query of its workspace returns this error
constexpr int kDoesNotRun = 5;      // is not supported, and running it returns this error

// Returns the workspace. A math type that allows more needs less workspace.
size_t WorkspaceBytes(int algorithm, cudnnMathType_t math) {
  const size_t of_math = math == CUDNN_FMA_MATH ? 3000 : math == CUDNN_DEFAULT_MATH ? 2000 : 1000;
  return of_math + 100 * static_cast<size_t>(algorithm);
}

bool IsSupported(int algorithm) { return algorithm <= kWorks; }

// The algorithms that are proposed for each pass.
template <class Algorithm>
cudnnStatus_t Propose(bool fits, const cudnnConvolutionStruct& conv, int max, int* count,
                      cuda_emulation::ConvolutionProposal<Algorithm>* found) {
  constexpr int kProposed[] = {kIsNotDeterministic, kHasNoWorkspace, kDoesNotRun, kWorks};
  if (!fits || max < 4) return CUDNN_STATUS_BAD_PARAM;
  const cudnnMathType_t math = conv.math == CUDNN_DEFAULT_MATH ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
  *count = 0;
  for (const int algorithm : kProposed) {
    found[(*count)++] = {
        .algo = static_cast<Algorithm>(algorithm),
        .status = CUDNN_STATUS_SUCCESS,
        .time = -1,
        .memory = WorkspaceBytes(algorithm, math),
        .determinism = algorithm == kIsNotDeterministic ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC,
        .mathType = math};
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t AskWorkspace(bool fits, const cudnnConvolutionStruct& conv, int algorithm, size_t* bytes) {
  if (!fits) return CUDNN_STATUS_BAD_PARAM;
  if (algorithm == kHasNoWorkspace) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = WorkspaceBytes(algorithm, conv.math);
  return CUDNN_STATUS_SUCCESS;
}

bool Fit(const Dimensions& x, const Dimensions& w, const Dimensions& y, const Conv& conv) {
  return x.type == w.type && x.type == y.type && w.c == x.c && y.n == x.n && y.c == w.n &&
         y.h == (x.h + 2 * conv.pad_h - w.h) / conv.stride_h + 1 &&
         y.w == (x.w + 2 * conv.pad_w - w.w) / conv.stride_w + 1 &&
         conv.compute == (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
}

// Returns a number as it is multiplied: f32 is rounded to TF32 if the math type allows it.
template <class T>
double Operand(T x, bool tf32) {
  if constexpr (std::is_same_v<T, float>) {
    if (tf32) return double{std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & ~0x1fffu)};
  }
  return double{x};
}

// Calls fn(place in x, in w, in y) for every product of a convolution.
template <class Fn>
void ForProducts(const Dimensions& x, const Dimensions& w, const Dimensions& y, const Conv& conv,
                 const Fn& fn) {
  for (int64_t n = 0; n < y.n; ++n)
    for (int64_t out = 0; out < y.c; ++out)
      for (int64_t in = 0; in < x.c; ++in)
        for (int64_t i = 0; i < w.h; ++i)
          for (int64_t j = 0; j < w.w; ++j) {
            const int64_t in_w = w.At(out, in, i, j);
            for (int64_t row = 0; row < y.h; ++row) {
              const int64_t x_row = row * conv.stride_h + i - conv.pad_h;
              if (x_row < 0 || x_row >= x.h) continue;
              for (int64_t col = 0; col < y.w; ++col) {
                const int64_t x_col = col * conv.stride_w + j - conv.pad_w;
                if (x_col >= 0 && x_col < x.w) fn(x.At(n, in, x_row, x_col), in_w, y.At(n, out, row, col));
              }
            }
          }
}

// The tensors that a pass reads and writes.
struct Pass {
  cudnnHandle_t handle;
  Conv conv;
  const void *alpha, *beta;
  int algorithm;
  void* workspace;
  size_t workspace_bytes;
};

// Computes result = alpha sums + beta result, where sum(sums) adds in f64.
template <class T, class Sum>
void Store(double alpha, double beta, void* result, const Dimensions& d, bool is_wrong, const Sum& sum) {
  std::vector<double> sums(static_cast<size_t>(d.numel()));
  sum(sums);
  auto* const to = static_cast<T*>(result);
  for (size_t i = 0; i < sums.size(); ++i) {
    const double before = beta == 0 ? 0 : beta * double{to[i]};  // not read if beta is 0
    to[i] = static_cast<T>(is_wrong ? NAN : alpha * sums[i] + before);
  }
}

// Puts a pass into the stream. fn(a, b, sums) adds products of the operands.
template <class Fn>
cudnnStatus_t Put(const Pass& pass, bool fits, const void* a, const Dimensions& a_dims, const void* b,
                  const Dimensions& b_dims, void* result, const Dimensions& dims, const Fn& fn) {
  const std::lock_guard lock(cuda_emulation::Mutex());
  const size_t element = dims.type == CUDNN_DATA_DOUBLE ? 8 : 4;
  const auto is_there = [&](const void* address, const Dimensions& d) {
    return cuda_emulation::IsDeviceMemory(address, static_cast<size_t>(d.numel()) * element);
  };
  if (!fits || !is_there(a, a_dims) || !is_there(b, b_dims) || !is_there(result, dims) ||
      pass.workspace_bytes < WorkspaceBytes(pass.algorithm, pass.conv.math) ||
      !cuda_emulation::IsDeviceMemory(pass.workspace, pass.workspace_bytes)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const bool is_random = pass.algorithm == kIsNotDeterministic;
  if (!is_random && !IsSupported(pass.algorithm)) return CUDNN_STATUS_NOT_SUPPORTED;
  const bool is_f64 = dims.type == CUDNN_DATA_DOUBLE;
  const auto factor = [&](const void* value) {
    return is_f64 ? *static_cast<const double*>(value) : double{*static_cast<const float*>(value)};
  };
  const double alpha = factor(pass.alpha), beta = factor(pass.beta);
  const auto run = [=]<class T>() {
    std::memset(pass.workspace, 0xff, pass.workspace_bytes);
    const bool tf32 = pass.conv.math != CUDNN_FMA_MATH;
    Store<T>(alpha, beta, result, dims, is_random, [&](std::vector<double>& sums) {
      fn([&](int64_t i) { return Operand(static_cast<const T*>(a)[i], tf32); },
         [&](int64_t i) { return Operand(static_cast<const T*>(b)[i], tf32); }, sums);
    });
  };
  cuda_emulation::Put(pass.handle->stream, [run, type = dims.type] {
    if (type == CUDNN_DATA_DOUBLE) return run.template operator()<double>();
    run.template operator()<float>();
  });
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t Create(T** handle) {
  *handle = new T{};
  return CUDNN_STATUS_SUCCESS;
}

template <class T>
cudnnStatus_t Destroy(T* handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS     ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM"
                                            : "CUDNN_STATUS_NOT_SUPPORTED";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return Create(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return Destroy(handle); }
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) { return Create(tensor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) { return Destroy(tensor); }
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) { return Create(filter); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) { return Destroy(filter); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) { return Create(conv); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) { return Destroy(conv); }

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  const Dimensions dimensions{type, format, n, c, h, w};
  if (dimensions.numel() > int64_t{1} << 31) return CUDNN_STATUS_NOT_SUPPORTED;
  static_cast<Dimensions&>(*tensor) = dimensions;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  static_cast<Dimensions&>(*filter) = {type, format, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (dilation_h != 1 || dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION)
    return CUDNN_STATUS_NOT_SUPPORTED;
  *conv = {pad_h, pad_w, stride_h, stride_w, compute, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int max, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
  return Propose(Fit(*x, *w, *y, *conv), *conv, max, count, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t conv,
                                                            cudnnFilterDescriptor_t dw, int max, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return Propose(Fit(*x, *dw, *dy, *conv), *conv, max, count, found);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t dx, int max, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return Propose(Fit(*dx, *w, *dy, *conv), *conv, max, count, found);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t conv,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return AskWorkspace(Fit(*x, *w, *y, *conv), *conv, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return AskWorkspace(Fit(*x, *dw, *dy, *conv), *conv, algorithm, bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return AskWorkspace(Fit(*dx, *w, *dy, *conv), *conv, algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_tensor, const void* x,
                                      cudnnFilterDescriptor_t w_filter, const void* w,
                                      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_tensor, void* y) {
  const Dimensions xd = *x_tensor, wd = *w_filter, yd = *y_tensor;
  return Put({handle, *conv, alpha, beta, algorithm, workspace, workspace_bytes}, Fit(xd, wd, yd, *conv), x,
             xd, w, wd, y, yd,
             [=, conv = *conv](const auto& of_x, const auto& of_w, std::vector<double>& sums) {
               ForProducts(xd, wd, yd, conv, [&](int64_t ix, int64_t iw, int64_t iy) {
                 sums[static_cast<size_t>(iy)] += of_x(ix) * of_w(iw);
               });
             });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_tensor, const void* x,
                                             cudnnTensorDescriptor_t y_tensor, const void* dy,
                                             cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t w_filter, void* dw) {
  const Dimensions xd = *x_tensor, wd = *w_filter, yd = *y_tensor;
  return Put({handle, *conv, alpha, beta, algorithm, workspace, workspace_bytes}, Fit(xd, wd, yd, *conv), x,
             xd, dy, yd, dw, wd,
             [=, conv = *conv](const auto& of_x, const auto& of_y, std::vector<double>& sums) {
               ForProducts(xd, wd, yd, conv, [&](int64_t ix, int64_t iw, int64_t iy) {
                 sums[static_cast<size_t>(iw)] += of_x(ix) * of_y(iy);
               });
             });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_filter, const void* w,
                                           cudnnTensorDescriptor_t y_tensor, const void* dy,
                                           cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_tensor, void* dx) {
  const Dimensions xd = *x_tensor, wd = *w_filter, yd = *y_tensor;
  return Put({handle, *conv, alpha, beta, algorithm, workspace, workspace_bytes}, Fit(xd, wd, yd, *conv), w,
             wd, dy, yd, dx, xd,
             [=, conv = *conv](const auto& of_w, const auto& of_y, std::vector<double>& sums) {
               ForProducts(xd, wd, yd, conv, [&](int64_t ix, int64_t iw, int64_t iy) {
                 sums[static_cast<size_t>(ix)] += of_w(iw) * of_y(iy);
               });
             });
}
