// Computes matrix products by cuBLASLt, which uses column-major matrices. A row-major matrix is its transpose
// in column-major order, so cuBLASLt computes c^T = b^T a^T with the operands as they are in memory.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <compare>
#include <map>
#include <string_view>
#include <type_traits>

#include "model/base/error.h"
#include "model/kernels/gemm.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// The size that NVIDIA recommends for Hopper, which is more than enough for Ampere.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// The type of the operands and of the result.
enum class Types { kF32, kF64, kBF16, kBF16ToF32 };

template <class T, class C>
constexpr Types TypesOf() {
  if (std::is_same_v<T, double>) return Types::kF64;
  if (std::is_same_v<T, float>) return Types::kF32;
  return std::is_same_v<C, float> ? Types::kBF16ToF32 : Types::kBF16;
}

constexpr std::string_view Name(Types types) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "bf16 to f32"};
  return kNames[static_cast<size_t>(types)];
}

// Everything that the choice of an algorithm depends on.
struct Key {
  Types types;
  bool tf32;
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  int64_t a_stride, b_stride, c_stride;
  // The alignments of the pointers, in bytes, at most 256.
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

// A descriptor of cuBLASLt that is destroyed with its owner.
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

// One product, ready to run: descriptors, and an algorithm if cuBLASLt has one.
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
    // The first operand is the memory of b, which is b^T in column-major order, and the second operand is the
    // memory of a, which is a^T.
    Set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p);
    Layout(first_, operand, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k, p.b_stride, p);
    Layout(second_, operand, p.a_transposed ? p.m : p.k, p.a_transposed ? p.k : p.m, p.a_stride, p);
    Layout(result_, result, p.n, p.m, p.c_stride, p);
    Choose(library, p);
  }

  // Returns CUBLAS_STATUS_SUCCESS, or the reason why there is no algorithm.
  cublasStatus_t status() const { return status_; }

  template <class T, class C>
  void Run(cublasLtHandle_t library, const Key& p, const Gemm<T, C>& g, void* workspace,
           cudaStream_t stream) const {
    const Wide<T> alpha = 1, beta = g.addend != nullptr ? 1 : 0;
    const C* const read = g.addend != nullptr ? g.addend : g.c.data;
    Check(cublasLtMatmul(library, operation_.get(), &alpha, g.b.data, first_.get(), g.a.data, second_.get(),
                         &beta, read, result_.get(), g.c.data, result_.get(), &algorithm_, workspace,
                         kWorkspaceBytes, stream),
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
    // Gradients may start anywhere in buckets, so the default alignment of 256 bytes is not guaranteed.
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.b_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.a_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.c_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.c_alignment);
    // Parts of a sum must be added in f32, and not after rounding to bf16.
    if (p.types == Types::kBF16)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
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

// The products of a device. All products run on the compute stream, one after another, so they share a
// workspace.
class Plans {
 public:
  explicit Plans(Device& device) : device_(static_cast<CudaDevice&>(device)) {
    device_.MakeCurrent();
    const cublasStatus_t status = cublasLtCreate(library_.address());
    if (status != CUBLAS_STATUS_SUCCESS)
      throw CudaError(Join("cublasLtCreate failed: ", cublasLtGetStatusString(status)));
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
  void Run(const Key& p, const Gemm<T, C>& g) {
    Get(p).Run(library_.get(), p, g, workspace_, device_.compute_stream().get());
  }

 private:
  CudaDevice& device_;
  Owned<cublasLtHandle_t, cublasLtDestroy> library_;
  void* workspace_ = nullptr;
  std::map<Key, Plan> plans_;
};

constexpr int64_t kAlignedBytes = 16;  // the largest access of a thread

template <class T>
bool IsAligned(const T* data, int64_t stride) {
  return AlignmentOf(data) >= kAlignedBytes && stride * int64_t{sizeof(T)} % kAlignedBytes == 0;
}

// A matrix in scratch memory with aligned rows; a copy of `from` unless it is null.
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

// Sets c to the addend, for products with k = 0.
template <class T, class C>
void AddNothing(const CudaDevice& device, const Gemm<T, C>& g) {
  const size_t pitch = static_cast<size_t>(g.c_stride) * sizeof(C);
  const size_t width = static_cast<size_t>(g.n) * sizeof(C), height = static_cast<size_t>(g.m);
  const cudaStream_t stream = device.compute_stream().get();
  if (g.addend == nullptr) {
    GRADSYNC_CUDA(cudaMemset2DAsync(g.c.data, pitch, 0, width, height, stream));
  } else if (g.addend != g.c.data) {
    GRADSYNC_CUDA(
        cudaMemcpy2DAsync(g.c.data, pitch, g.addend, pitch, width, height, cudaMemcpyDeviceToDevice, stream));
  }
}

// Computes c = addend + a b. The addend is c itself, another array, or null. Only the memory of g.c is used.
template <class T, class C>
void Multiply(Device& device, const Gemm<T, C>& g) {
  if (g.m == 0 || g.n == 0) return;
  CudaDevice& gpu = static_cast<CudaDevice&>(device);
  gpu.MakeCurrent();
  if (g.k == 0) return AddNothing(gpu, g);
  const Key key{.types = TypesOf<T, C>(),
                .tf32 = std::is_same_v<T, float> && gpu.allow_tf32(),
                .m = g.m,
                .n = g.n,
                .k = g.k,
                .a_transposed = g.a.transposed,
                .b_transposed = g.b.transposed,
                .a_stride = g.a.stride,
                .b_stride = g.b.stride,
                .c_stride = g.c_stride,
                .a_alignment = AlignmentOf(g.a.data),
                .b_alignment = AlignmentOf(g.b.data),
                .c_alignment = std::min(AlignmentOf(g.c.data), AlignmentOf(g.addend))};
  Plans& plans = device.Resource<Plans>();
  const cublasStatus_t status = plans.Get(key).status();
  if (status == CUBLAS_STATUS_SUCCESS) return plans.Run(key, g);
  // cuBLASLt may have no algorithm for unaligned rows, such as rows of bf16 with an odd number of columns.
  // For aligned rows it must have an algorithm.
  if (IsAligned(g.a.data, g.a.stride) && IsAligned(g.b.data, g.b.stride) && IsAligned(g.c.data, g.c_stride) &&
      IsAligned(g.addend, g.c_stride)) {
    Check(status, "cublasLtMatmulAlgoGetHeuristic", key);
  }
  const AlignedMatrix<T> a(gpu, g.a.transposed ? g.k : g.m, g.a.transposed ? g.m : g.k, g.a.data, g.a.stride);
  const AlignedMatrix<T> b(gpu, g.b.transposed ? g.n : g.k, g.b.transposed ? g.k : g.n, g.b.data, g.b.stride);
  const AlignedMatrix<C> c(gpu, g.m, g.n, g.addend, g.c_stride);
  Multiply(device, Gemm<T, C>{.m = g.m,
                              .n = g.n,
                              .k = g.k,
                              .a = {a.data(), a.stride(), g.a.transposed},
                              .b = {b.data(), b.stride(), g.b.transposed},
                              .c = {.data = c.data()},
                              .c_stride = c.stride(),
                              .addend = g.addend != nullptr ? c.data() : nullptr});
  c.CopyTo(g.c.data, g.c_stride);
}

}  // namespace

template <class T, class C>
void Gemm<T, C>::OnCuda(Device& device) const {
  Gemm g = *this;
  if (c.accumulate) g.addend = c.data;
  Multiply(device, g);
}
GRADSYNC_INSTANTIATE_GEMM(OnCuda);

}  // namespace gradsync::model::kernels
