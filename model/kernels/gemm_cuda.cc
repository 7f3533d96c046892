// Matrix products through cuBLASLt. It takes column-major matrices, and a row-major matrix is its transpose
// in column-major: so c^T = b^T a^T is computed, with the operands as they lie in memory.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <compare>
#include <map>
#include <string_view>
#include <type_traits>

#include "model/cuda_device.h"
#include "model/error.h"
#include "model/kernels/gemm.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// What NVIDIA recommends for Hopper, and more than enough for its predecessor.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// Of the operands, and of the result.
enum class Types { kF32, kF64, kBF16, kBF16ToF32 };

template <class T, class C>
constexpr Types TypesOf() {
  if (std::is_same_v<T, double>) return Types::kF64;
  if (std::is_same_v<T, float>) return Types::kF32;
  return std::is_same_v<C, float> ? Types::kBF16ToF32 : Types::kBF16;
}

constexpr std::string_view Name(Types types) {
  switch (types) {
    case Types::kF32:
      return "f32";
    case Types::kF64:
      return "f64";
    case Types::kBF16:
      return "bf16";
    case Types::kBF16ToF32:
      return "bf16 to f32";
  }
  return "?";
}

// Everything that the choice of an algorithm depends on.
struct Key {
  Types types;
  bool tf32;
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  int64_t a_stride, b_stride, c_stride;
  // Of the pointers, in bytes, at most 256.
  uint32_t a_alignment, b_alignment, c_alignment;

  friend auto operator<=>(const Key&, const Key&) = default;
};

void Check(cublasStatus_t status, const char* call, const Key& p) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(Join(call, " for ", Name(p.types), " m=", p.m, " n=", p.n, " k=", p.k, ", rows of a, b, c ",
                       p.a_stride, ", ", p.b_stride, ", ", p.c_stride, " elements apart, at multiples of ",
                       p.a_alignment, ", ", p.b_alignment, ", ", p.c_alignment,
                       " bytes, failed: ", cublasLtGetStatusString(status)));
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

// One product, ready to run: descriptions and algorithm, if cuBLASLt has one.
class Plan {
 public:
  Plan(cublasLtHandle_t library, const Key& p) {
    const bool is_f64 = p.types == Types::kF64;
    const cudaDataType_t wide = is_f64 ? CUDA_R_64F : CUDA_R_32F;
    const bool from_bf16 = p.types == Types::kBF16 || p.types == Types::kBF16ToF32;
    const cudaDataType_t operand = from_bf16 ? CUDA_R_16BF : wide;
    const cudaDataType_t result = p.types == Types::kBF16 ? CUDA_R_16BF : wide;
    const cublasComputeType_t compute = is_f64   ? CUBLAS_COMPUTE_64F
                                        : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
    Check(cublasLtMatmulDescCreate(operation_.address(), compute, wide), "cublasLtMatmulDescCreate", p);
    // The first operand is b as it lies in memory, which is b^T; the second likewise a^T.
    Set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Layout(first_, operand, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.b_stride, p);
    Layout(second_, operand, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.a_stride, p);
    Layout(result_, result, p.n, p.m, p.c_stride, p);
    Choose(library, p);
  }

  // CUBLAS_STATUS_SUCCESS, or why there is no algorithm.
  cublasStatus_t status() const { return status_; }

  // c = addend + a b, the addend being c itself, another array, or null for none.
  template <class T, class C>
  void Run(cublasLtHandle_t library, const Key& p, const T* a, const T* b, const C* addend, C* c,
           void* workspace, cudaStream_t stream) const {
    const Wide<T> alpha = 1, beta = addend != nullptr ? 1 : 0;
    const C* const read = addend != nullptr ? addend : c;
    Check(cublasLtMatmul(library, operation_.get(), &alpha, b, first_.get(), a, second_.get(), &beta, read,
                         result_.get(), c, result_.get(), &algorithm_, workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul", p);
  }

 private:
  using OwnedLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

  void Set(cublasLtMatmulDescAttributes_t attribute, cublasOperation_t operation, const Key& p) {
    Check(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &operation, sizeof(operation)),
          "cublasLtMatmulDescSetAttribute", p);
  }

  // A column-major matrix.
  static void Layout(OwnedLayout& layout, cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride,
                     const Key& p) {
    Check(cublasLtMatrixLayoutCreate(layout.address(), type, static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(cols), stride),
          "cublasLtMatrixLayoutCreate", p);
  }

  void Choose(cublasLtHandle_t library, const Key& p) {
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
    // Parts of a sum are added in f32, not as numbers that have been rounded to bf16.
    if (p.types == Types::kBF16) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    status_ =
        cublasLtMatmulAlgoGetHeuristic(library, operation_.get(), first_.get(), second_.get(), result_.get(),
                                       result_.get(), preference.get(), 1, &found, &count);
    if (status_ == CUBLAS_STATUS_SUCCESS) status_ = count == 1 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm_ = found.algo;
  }

  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation_;
  OwnedLayout first_, second_, result_;
  cublasStatus_t status_ = CUBLAS_STATUS_NOT_SUPPORTED;
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

  const Plan& Get(const Key& p) {
    auto plan = plans_.find(p);
    if (plan == plans_.end()) plan = plans_.try_emplace(p, library_.get(), p).first;
    return plan->second;
  }

  template <class T, class C>
  void Run(const Key& p, const T* a, const T* b, const C* addend, C* c) {
    Get(p).Run(library_.get(), p, a, b, addend, c, workspace_, device_.compute_stream().get());
  }

 private:
  CudaDevice& device_;
  Owned<cublasLtHandle_t, cublasLtDestroy> library_;
  void* workspace_ = nullptr;
  std::map<Key, Plan> plans_;
};

constexpr int64_t kAlignedBytes = 16;  // the widest that a thread loads at once

template <class T>
bool IsAligned(const T* data, int64_t stride) {
  return AlignmentOf(data) >= kAlignedBytes && stride * int64_t{sizeof(T)} % kAlignedBytes == 0;
}

// A matrix in scratch whose rows are aligned, a copy of another if that is not null.
template <class T>
class AlignedMatrix {
 public:
  AlignedMatrix(CudaDevice& device, int64_t rows, int64_t cols, const T* from, int64_t stride)
      : rows_(rows),
        cols_(cols),
        scratch_(device, rows * this->stride()),
        stream_(device.compute_stream().get()) {
    if (from != nullptr) Copy(from, stride, data(), this->stride());
  }

  T* data() const { return scratch_.data(); }
  int64_t stride() const {
    constexpr int64_t kNumel = kAlignedBytes / sizeof(T);
    return (cols_ + kNumel - 1) / kNumel * kNumel;
  }
  void CopyTo(T* to, int64_t stride) const { Copy(data(), this->stride(), to, stride); }

 private:
  void Copy(const T* from, int64_t from_stride, T* to, int64_t to_stride) const {
    const auto bytes = [](int64_t numel) { return static_cast<size_t>(numel) * sizeof(T); };
    GRADSYNC_CUDA(cudaMemcpy2DAsync(to, bytes(to_stride), from, bytes(from_stride), bytes(cols_),
                                    static_cast<size_t>(rows_), cudaMemcpyDeviceToDevice, stream_));
  }

  const int64_t rows_, cols_;
  const Scratch<T> scratch_;
  const cudaStream_t stream_;
};

// c (m, n) = addend: a product of matrices with nothing between them.
template <class C>
void AddNothing(const CudaDevice& device, int64_t m, int64_t n, const C* addend, C* c, int64_t c_stride) {
  const size_t pitch = static_cast<size_t>(c_stride) * sizeof(C), width = static_cast<size_t>(n) * sizeof(C);
  const cudaStream_t stream = device.compute_stream().get();
  if (addend == nullptr) {
    GRADSYNC_CUDA(cudaMemset2DAsync(c, pitch, 0, width, static_cast<size_t>(m), stream));
  } else if (addend != c) {
    GRADSYNC_CUDA(cudaMemcpy2DAsync(c, pitch, addend, pitch, width, static_cast<size_t>(m),
                                    cudaMemcpyDeviceToDevice, stream));
  }
}

// c = addend + a b, as in Plan::Run.
template <class T, class C>
void Multiply(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const C* addend,
              C* c, int64_t c_stride) {
  if (m == 0 || n == 0) return;
  CudaDevice& gpu = static_cast<CudaDevice&>(device);
  gpu.MakeCurrent();
  if (k == 0) return AddNothing(gpu, m, n, addend, c, c_stride);
  const Key key{.types = TypesOf<T, C>(),
                .tf32 = std::is_same_v<T, float> && gpu.allow_tf32(),
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
                .c_alignment = std::min(AlignmentOf(c), AlignmentOf(addend))};
  Plans& plans = device.Resource<Plans>();
  const cublasStatus_t status = plans.Get(key).status();
  if (status == CUBLAS_STATUS_SUCCESS) return plans.Run(key, a.data, b.data, addend, c);
  // Nothing promises an algorithm for rows that begin anywhere, as those of bf16 with an odd number of
  // columns do. For aligned ones there has to be one.
  if (IsAligned(a.data, a.stride) && IsAligned(b.data, b.stride) && IsAligned(c, c_stride) &&
      IsAligned(addend, c_stride)) {
    Check(status, "cublasLtMatmulAlgoGetHeuristic", key);
  }
  const AlignedMatrix<T> aligned_a(gpu, a.transposed ? k : m, a.transposed ? m : k, a.data, a.stride);
  const AlignedMatrix<T> aligned_b(gpu, b.transposed ? n : k, b.transposed ? k : n, b.data, b.stride);
  const AlignedMatrix<C> aligned_c(gpu, m, n, addend, c_stride);
  Multiply<T, C>(device, m, n, k, {aligned_a.data(), aligned_a.stride(), a.transposed},
                 {aligned_b.data(), aligned_b.stride(), b.transposed},
                 addend != nullptr ? aligned_c.data() : nullptr, aligned_c.data(), aligned_c.stride());
  aligned_c.CopyTo(c, c_stride);
}

}  // namespace

template <class T, class C>
void Gemm<T, C>::OnCuda(Device& device) const {
  Multiply(device, m, n, k, a, b, c.accumulate ? c.data : addend, c.data, c_stride);
}
GRADSYNC_INSTANTIATE_GEMM(OnCuda);

}  // namespace gradsync::model::kernels
