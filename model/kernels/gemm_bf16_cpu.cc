#include <omp.h>

#include <compare>
#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "model/kernels/cpu_isa.h"
#include "model/kernels/eigen.h"
#include "model/kernels/gemm_bf16.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

using dnnl::memory;

// Everything that a primitive depends on.
struct Key {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  int64_t a_stride, b_stride, c_stride;
  bool c_is_f32, accumulate;

  friend auto operator<=>(const Key&, const Key&) = default;
};

memory::desc Describe(int64_t rows, int64_t cols, memory::data_type type, int64_t stride, bool transposed) {
  return {{rows, cols}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

// A product made ready.
struct Primitive {
  Primitive(const dnnl::engine& engine, const Key& p)
      : a(Describe(p.m, p.k, memory::data_type::bf16, p.a_stride, p.a_transposed)),
        b(Describe(p.k, p.n, memory::data_type::bf16, p.b_stride, p.b_transposed)),
        c(Describe(p.m, p.n, p.c_is_f32 ? memory::data_type::f32 : memory::data_type::bf16, p.c_stride,
                   false)) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.accumulate) {
      dnnl::post_ops post_ops;
      post_ops.append_sum(1.0f);
      attributes.set_post_ops(post_ops);
    }
    const dnnl::matmul::primitive_desc desc(engine, a, b, c, attributes);
    matmul = dnnl::matmul(desc);
    scratchpad = desc.scratchpad_desc();
  }

  memory::desc a, b, c, scratchpad;
  dnnl::matmul matmul;
};

// Returns nothing if oneDNN does not implement it.
std::optional<Primitive> MakePrimitive(const dnnl::engine& engine, const Key& p) {
  try {
    return Primitive(engine, p);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
}

// A device's products in bf16.
class OneDnnProducts {
 public:
  explicit OneDnnProducts(Device& device)
      : device_(device),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        has_instructions_(UsesBF16Instructions()) {}

  // Returns false, having done nothing, if this processor has no instructions for it or oneDNN does not
  // implement it.
  bool Run(const Key& p, const BF16* a, const BF16* b, void* c) {
    // Of a product with a single row or column, oneDNN 3.7 overlooks how far apart rows lie.
    if (!has_instructions_ || p.m == 1 || p.n == 1) return false;
    // oneDNN reads OpenMP's number of threads when it makes a primitive and when it runs one.
    omp_set_num_threads(device_.num_threads());
    auto found = primitives_.find(p);
    if (found == primitives_.end()) found = primitives_.emplace(p, MakePrimitive(engine_, p)).first;
    if (!found->second) return false;
    const Primitive& primitive = *found->second;
    const Scratch<std::byte> scratchpad(device_, static_cast<int64_t>(primitive.scratchpad.get_size()));
    // oneDNN takes inputs, too, by a pointer through which it could write.
    primitive.matmul.execute(
        stream_, {{DNNL_ARG_SRC, memory(primitive.a, engine_, const_cast<BF16*>(a))},
                  {DNNL_ARG_WEIGHTS, memory(primitive.b, engine_, const_cast<BF16*>(b))},
                  {DNNL_ARG_DST, memory(primitive.c, engine_, c)},
                  {DNNL_ARG_SCRATCHPAD, memory(primitive.scratchpad, engine_, scratchpad.data())}});
    return true;
  }

 private:
  Device& device_;
  const dnnl::engine engine_;
  dnnl::stream stream_;
  const bool has_instructions_;
  std::map<Key, std::optional<Primitive>> primitives_;
};

// A matrix of `rows` rows of `cols` elements, as it is stored, in f32.
class WideCopy {
 public:
  WideCopy(Device& device, int64_t rows, int64_t cols, Operand<BF16> x)
      : stride_(PaddedStride<float>(cols)), scratch_(device, rows * stride_), transposed_(x.transposed) {
    ParallelFor(
        device, rows,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            CastSpan(x.data + i * x.stride, cols, scratch_.data() + i * stride_);
          }
        },
        16);
  }

  Operand<float> operand() const { return {scratch_.data(), stride_, transposed_}; }

 private:
  const int64_t stride_;
  const Scratch<float> scratch_;
  const bool transposed_;
};

WideCopy Widen(Device& device, int64_t rows, int64_t cols, Operand<BF16> x) {
  if (x.transposed) std::swap(rows, cols);
  return {device, rows, cols, x};
}

}  // namespace

template <class C>
void GemmBF16(Device& device, int64_t m, int64_t n, int64_t k, Operand<BF16> a, Operand<BF16> b, C* c,
              int64_t c_stride, bool accumulate) {
  constexpr bool kToF32 = std::is_same_v<C, float>;
  const Key key{.m = m,
                .n = n,
                .k = k,
                .a_transposed = a.transposed,
                .b_transposed = b.transposed,
                .a_stride = a.stride,
                .b_stride = b.stride,
                .c_stride = c_stride,
                .c_is_f32 = kToF32,
                .accumulate = accumulate};
  if (device.Resource<OneDnnProducts>().Run(key, a.data, b.data, c)) return;
  const WideCopy wide_a = Widen(device, m, k, a), wide_b = Widen(device, k, n, b);
  const auto multiply = [&](Destination<float*> to, int64_t stride) {
    Gemm<float, float>{
        .m = m, .n = n, .k = k, .a = wide_a.operand(), .b = wide_b.operand(), .c = to, .c_stride = stride}
        .OnCpu(device);
  };
  if constexpr (kToF32) {
    multiply({.data = c, .accumulate = accumulate}, c_stride);
  } else {
    const int64_t stride = PaddedStride<float>(n);
    const Scratch<float> sums(device, m * stride);
    multiply({.data = sums.data()}, stride);
    ParallelFor(
        device, m,
        [&](int64_t begin, int64_t end) {
          Writer<BF16> write(n);
          for (int64_t i = begin; i < end; ++i) {
            const ConstArrayMap<float> row(sums.data() + i * stride, n);
            write(c + i * c_stride, n, accumulate, [&](ArrayMap<float> out) { Store(out, row, accumulate); });
          }
        },
        16);
  }
}

template void GemmBF16<float>(Device&, int64_t, int64_t, int64_t, Operand<BF16>, Operand<BF16>, float*,
                              int64_t, bool);
template void GemmBF16<BF16>(Device&, int64_t, int64_t, int64_t, Operand<BF16>, Operand<BF16>, BF16*, int64_t,
                             bool);

}  // namespace gradsync::model::kernels
