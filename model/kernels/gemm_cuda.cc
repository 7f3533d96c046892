// Matrix products through cuBLASLt. It takes column-major matrices, and a row-major matrix is its transpose
// in column-major: so c^T = b^T a^T is computed, with the operands as they lie in memory.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <compare>
#include <map>
#include <type_traits>

#include "model/cuda_device.h"
#include "model/error.h"
#include "model/kernels/gemm.h"

namespace gradsync::model::kernels::cuda {
namespace {

// What NVIDIA recommends for Hopper, and more than enough for its predecessor.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Everything that the choice of an algorithm depends on.
struct Product {
  bool is_f64, tf32;
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  int64_t a_stride, b_stride, c_stride;
  // Of the pointers, in bytes, at most 256.
  uint32_t a_alignment, b_alignment, c_alignment;

  friend auto operator<=>(const Product&, const Product&) = default;
};

void Check(cublasStatus_t status, const char* call, const Product& p) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(Join(call, " for ", p.is_f64 ? "f64" : "f32", " m=", p.m, " n=", p.n, " k=", p.k,
                       " failed: ", cublasLtGetStatusString(status)));
}

uint32_t AlignmentOf(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

// A description of cuBLASLt's that is destroyed with its owner.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) Destroy(handle_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle* address() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

// One product, ready to run: descriptions and algorithm.
class Plan {
 public:
  Plan(cublasLtHandle_t library, const Product& p) {
    const cudaDataType_t type = p.is_f64 ? CUDA_R_64F : CUDA_R_32F;
    const cublasComputeType_t compute = p.is_f64 ? CUBLAS_COMPUTE_64F
                                        : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
    Check(cublasLtMatmulDescCreate(operation_.address(), compute, type), "cublasLtMatmulDescCreate", p);
    // The first operand is b as it lies in memory, which is b^T; the second likewise a^T.
    Set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Layout(first_, type, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.b_stride, p);
    Layout(second_, type, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.a_stride, p);
    Layout(result_, type, p.n, p.m, p.c_stride, p);
    Choose(library, p);
  }

  template <class T>
  void Run(cublasLtHandle_t library, const Product& p, const T* a, const T* b, T* c, bool accumulate,
           void* workspace, cudaStream_t stream) const {
    const T alpha = 1, beta = accumulate ? 1 : 0;
    Check(cublasLtMatmul(library, operation_.get(), &alpha, b, first_.get(), a, second_.get(), &beta, c,
                         result_.get(), c, result_.get(), &algorithm_, workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul", p);
  }

 private:
  using OwnedLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  void Set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t operation, const Product& p) {
    Check(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &operation, sizeof(operation)),
          "cublasLtMatmulDescSetAttribute", p);
  }

  // A column-major matrix.
  static void Layout(OwnedLayout& layout, cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride,
                     const Product& p) {
    Check(cublasLtMatrixLayoutCreate(layout.address(), type, static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(cols), stride),
          "cublasLtMatrixLayoutCreate", p);
  }

  void Choose(cublasLtHandle_t library, const Product& p) {
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
    Check(cublasLtMatmulPreferenceCreate(preference.address()), "cublasLtMatmulPreferenceCreate", p);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      Check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute", p);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
    // Gradients lie in buckets, wherever their turn put them: the default, 256 bytes, does not hold.
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.c_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.c_alignment);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    Check(cublasLtMatmulAlgoGetHeuristic(library, operation_.get(), first_.get(), second_.get(),
                                         result_.get(), result_.get(), preference.get(), 1, &found, &count),
          "cublasLtMatmulAlgoGetHeuristic", p);
    Check(count == 1 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", p);
    algorithm_ = found.algo;
  }

  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  OwnedLayout first_, second_, result_;
  cublasLtMatmulAlgo_t algorithm_{};
};

// The device's products. All of them run on the compute stream, one after another, so they share a workspace.
class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    device_.MakeCurrent();
    const cublasStatus_t status = cublasLtCreate(library_.address());
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw CudaError(Join("cublasLtCreate failed: ", cublasLtGetStatusString(status)));
    }
    workspace_ = device_.allocator().Allocate(kWorkspaceBytes);
  }
  ~Plans() {
    if (workspace_ != nullptr) device_.allocator().Free(workspace_);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  template <class T>
  void Run(const Product& p, const T* a, const T* b, T* c, bool accumulate) {
    auto plan = plans_.find(p);
    if (plan == plans_.end()) plan = plans_.try_emplace(p, library_.get(), p).first;
    plan->second.Run(library_.get(), p, a, b, c, accumulate, workspace_, device_.compute_stream().get());
  }

 private:
  CudaDevice& device_;
  Owned<cublasLtHandle_t, cublasLtDestroy> library_;
  void* workspace_ = nullptr;
  std::map<Product, Plan> plans_;
};

}  // namespace

template <class T>
void Gemm(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
          bool accumulate) {
  if (m == 0 || n == 0) return;
  CudaDevice& gpu = static_cast<CudaDevice&>(device);
  gpu.MakeCurrent();
  if (k == 0) {  // a product of matrices with nothing between them
    if (accumulate) return;
    GRADSYNC_CUDA(cudaMemset2DAsync(c, static_cast<size_t>(c_stride) * sizeof(T), 0,
                                    static_cast<size_t>(n) * sizeof(T), static_cast<size_t>(m),
                                    gpu.compute_stream().get()));
    return;
  }
  const bool is_f64 = std::is_same_v<T, double>;
  const Product product{.is_f64 = is_f64,
                        .tf32 = !is_f64 && gpu.allow_tf32(),
                        .m = m,
                        .n = n,
                        .k = k,
                        .a_transposed = a.transposed,
                        .b_transposed = b.transposed,
                        .a_stride = a.stride,
                        .b_stride = b.stride,
                        .c_stride = c_stride,
                        .a_alignment = AlignmentOf(a.data),
                        .b_alignment = AlignmentOf(b.data),
                        .c_alignment = AlignmentOf(c)};
  device.Resource<Plans>().Run(product, a.data, b.data, c, accumulate);
}

template void Gemm<float>(Device&, int64_t, int64_t, int64_t, Operand<float>, Operand<float>, float*, int64_t,
                          bool);
template void Gemm<double>(Device&, int64_t, int64_t, int64_t, Operand<double>, Operand<double>, double*,
                           int64_t, bool);

}  // namespace gradsync::model::kernels::cuda
