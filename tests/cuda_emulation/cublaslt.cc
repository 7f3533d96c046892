#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <eigen3/Eigen/Core>

#include "tests/cuda_emulation/stream.h"

struct cublasLtContext {};

struct cublasLtMatmulDescription {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};

// A column-major matrix.
struct cublasLtMatrixLayoutDescription {
  cudaDataType_t type;
  int64_t rows, cols, stride;

  bool operator==(const cublasLtMatrixLayoutDescription&) const = default;
};

struct cublasLtMatmulPreferenceDescription {
  uint64_t workspace_bytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // alignments of a, b, c and d
};

namespace {

using Operation = cublasLtMatmulDescription;
using Layout = cublasLtMatrixLayoutDescription;

// The alignments on which an algorithm may rely, as stored in cublasLtMatmulAlgo_t.
struct Promise {
  uint64_t workspace_bytes;
  uint32_t alignments[4];
};

template <class W>
using Matrix = Eigen::Matrix<W, Eigen::Dynamic, Eigen::Dynamic>;

float Round(float x, bool to_tf32) {
  if (!to_tf32) return x;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000u) & ~0x1fffu);
}
double Round(double x, bool) { return x; }

template <class W, class T>
Matrix<W> Load(const T* data, const Layout& layout, bool tf32) {
  Matrix<W> matrix(layout.rows, layout.cols);
  for (int64_t col = 0; col < layout.cols; ++col) {
    for (int64_t row = 0; row < layout.rows; ++row) {
      const T x = data[row + col * layout.stride];
      if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        matrix(row, col) = __bfloat162float(x);
      } else {
        matrix(row, col) = Round(x, tf32);
      }
    }
  }
  return matrix;
}

template <class W, class T>
Matrix<W> LoadOperand(const void* data, const Layout& layout, cublasOperation_t operation, bool tf32) {
  const Matrix<W> matrix = Load<W>(static_cast<const T*>(data), layout, tf32);
  return operation == CUBLAS_OP_T ? Matrix<W>(matrix.transpose()) : matrix;
}

template <class T, class W>
T Narrow(W x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

// Computes d = alpha a b + beta c. c and d have type C, a and b have type T, and W is the type of the
// computation.
template <class T, class C, class W>
void Multiply(const Operation& operation, W alpha, const void* a, const Layout& a_layout, const void* b,
              const Layout& b_layout, W beta, const void* c, void* d, const Layout& layout) {
  const bool tf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  Matrix<W> result = alpha * (LoadOperand<W, T>(a, a_layout, operation.a, tf32) *
                              LoadOperand<W, T>(b, b_layout, operation.b, tf32));
  // If beta is 0, c is not read.
  if (beta != 0) result += beta * Load<W>(static_cast<const C*>(c), layout, false);
  auto* const to = static_cast<C*>(d);
  for (int64_t col = 0; col < layout.cols; ++col) {
    for (int64_t row = 0; row < layout.rows; ++row) {
      to[row + col * layout.stride] = Narrow<C>(result(row, col));
    }
  }
}

size_t BytesOf(const Layout& layout) {
  const size_t element = layout.type == CUDA_R_64F ? 8 : layout.type == CUDA_R_32F ? 4 : 2;
  return static_cast<size_t>((layout.cols - 1) * layout.stride + layout.rows) * element;
}

// Returns whether the dimensions fit.
bool Fit(const Operation& operation, const Layout& a, const Layout& b, const Layout& d) {
  const bool a_t = operation.a == CUBLAS_OP_T, b_t = operation.b == CUBLAS_OP_T;
  return (a_t ? a.cols : a.rows) == d.rows && (b_t ? b.rows : b.cols) == d.cols &&
         (a_t ? a.rows : a.cols) == (b_t ? b.cols : b.rows);
}

template <class T>
cublasStatus_t Set(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Returns the function for these types, or null if cuBLASLt does not support them.
template <class W>
using Function = void (*)(const Operation&, W, const void*, const Layout&, const void*, const Layout&, W,
                          const void*, void*, const Layout&);
Function<float> FunctionF32(cudaDataType_t operand, cudaDataType_t result) {
  if (operand == CUDA_R_32F && result == CUDA_R_32F) return Multiply<float, float, float>;
  if (operand == CUDA_R_16BF && result == CUDA_R_32F) return Multiply<__nv_bfloat16, float, float>;
  if (operand == CUDA_R_16BF && result == CUDA_R_16BF) return Multiply<__nv_bfloat16, __nv_bfloat16, float>;
  return nullptr;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_NOT_SUPPORTED";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *description = new Operation{.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  return Set(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? description->a : description->b, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t stride) {
  if (rows == 0 || cols == 0 || stride < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), stride};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceDescription;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  uint32_t scheme = 0;  // all schemes are equal here
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return Set(scheme, value, bytes);
    default:
      return Set(preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                 bytes);
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int max_results,
                                              cublasLtMatmulHeuristicResult_t* results, int* num_results) {
  const bool is_f64 = operation->compute == CUBLAS_COMPUTE_64F;
  const bool has_types =
      is_f64 ? a->type == CUDA_R_64F && d->type == CUDA_R_64F && operation->scale == CUDA_R_64F
             : FunctionF32(a->type, d->type) != nullptr && operation->scale == CUDA_R_32F;
  if (max_results < 1 || !Fit(*operation, *a, *b, *d) || *c != *d) return CUBLAS_STATUS_INVALID_VALUE;
  *num_results = 0;
  if (!has_types || a->type != b->type) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto is_odd = [](const Layout* layout) {
    return layout->type == CUDA_R_16BF && layout->stride % 2 != 0;
  };
  if (is_odd(a) || is_odd(b) || is_odd(d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  Promise promise{.workspace_bytes = preference->workspace_bytes, .alignments = {}};
  std::copy_n(preference->alignments, 4, promise.alignments);
  results[0] = {.algo = {}, .workspaceSize = preference->workspace_bytes, .state = CUBLAS_STATUS_SUCCESS};
  std::memcpy(results[0].algo.data, &promise, sizeof(promise));
  *num_results = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  Promise promise;
  std::memcpy(&promise, algorithm->data, sizeof(promise));
  const std::lock_guard lock(cuda_emulation::Mutex());
  const std::pair<const void*, const Layout*> operands[] = {
      {a, a_layout}, {b, b_layout}, {c, c_layout}, {d, d_layout}};
  for (int i = 0; i < 4; ++i) {
    const auto& [address, layout] = operands[i];
    if (reinterpret_cast<uintptr_t>(address) % promise.alignments[i] != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (!cuda_emulation::IsDeviceMemory(address, BytesOf(*layout))) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace_bytes < promise.workspace_bytes || reinterpret_cast<uintptr_t>(workspace) % 256 != 0 ||
      !cuda_emulation::IsDeviceMemory(workspace, workspace_bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Descriptors may be destroyed before the product is computed, and the workspace is overwritten.
  const auto put = [&](auto function, auto alpha_value, auto beta_value) {
    cuda_emulation::Put(stream, [=, operation = *operation, a_layout = *a_layout, b_layout = *b_layout,
                                 d_layout = *d_layout] {
      std::memset(workspace, 0xff, std::min<size_t>(workspace_bytes, 4096));
      function(operation, alpha_value, a, a_layout, b, b_layout, beta_value, c, d, d_layout);
    });
  };
  if (operation->compute == CUBLAS_COMPUTE_64F) {
    put(Multiply<double, double, double>, *static_cast<const double*>(alpha),
        *static_cast<const double*>(beta));
  } else {
    put(FunctionF32(a_layout->type, d_layout->type), *static_cast<const float*>(alpha),
        *static_cast<const float*>(beta));
  }
  return CUBLAS_STATUS_SUCCESS;
}
