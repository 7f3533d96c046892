#include "model/kernels/gemm_onednn.h"

#include <omp.h>

#include <compare>
#include <cstddef>
#include <dnnl.hpp>
#include <map>
#include <optional>

#include "model/kernels/onednn.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

using dnnl::memory;

struct Key {
  int64_t m, n, k;
  bool a_transposed, b_transposed;
  int64_t a_stride, b_stride, c_stride;
  memory::data_type inputs, output;
  bool accumulate;

  friend auto operator<=>(const Key&, const Key&) = default;
};

memory::desc Describe(int64_t rows, int64_t cols, memory::data_type type, int64_t stride, bool transposed) {
  return {{rows, cols}, type, transposed ? memory::dims{1, stride} : memory::dims{stride, 1}};
}

struct Primitive {
  Primitive(const dnnl::engine& engine, const Key& p)
      : a(Describe(p.m, p.k, p.inputs, p.a_stride, p.a_transposed)),
        b(Describe(p.k, p.n, p.inputs, p.b_stride, p.b_transposed)),
        c(Describe(p.m, p.n, p.output, p.c_stride, false)) {
    const dnnl::matmul::primitive_desc desc(engine, a, b, c, OneDnnAttributes(p.accumulate));
    matmul = dnnl::matmul(desc);
    scratchpad = desc.scratchpad_desc();
  }

  memory::desc a, b, c, scratchpad;
  dnnl::matmul matmul;
};

// Makes a primitive. Returns nullopt if oneDNN does not implement it.
std::optional<Primitive> MakePrimitive(const dnnl::engine& engine, const Key& p) {
  try {
    return Primitive(engine, p);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
}

class OneDnnProducts {
 public:
  explicit OneDnnProducts(Device& device)
      : device_(device), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  // Runs a product. a and b are only read, but oneDNN accepts only pointers to non-const.
  bool Run(const Key& p, void* a, void* b, void* c) {
    // In a product with a single row or column, oneDNN 3.7 ignores the stride of rows.
    if (p.m == 1 || p.n == 1) return false;
    // oneDNN reads OpenMP's number of threads when it makes a primitive and when it runs one.
    omp_set_num_threads(device_.num_threads());
    auto found = primitives_.find(p);
    if (found == primitives_.end()) found = primitives_.emplace(p, MakePrimitive(engine_, p)).first;
    if (!found->second) return false;
    const Primitive& primitive = *found->second;
    const Scratch<std::byte> scratchpad(device_, static_cast<int64_t>(primitive.scratchpad.get_size()));
    primitive.matmul.execute(
        stream_, {{DNNL_ARG_SRC, memory(primitive.a, engine_, a)},
                  {DNNL_ARG_WEIGHTS, memory(primitive.b, engine_, b)},
                  {DNNL_ARG_DST, memory(primitive.c, engine_, c)},
                  {DNNL_ARG_SCRATCHPAD, memory(primitive.scratchpad, engine_, scratchpad.data())}});
    return true;
  }

 private:
  Device& device_;
  const dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<Key, std::optional<Primitive>> primitives_;
};

}  // namespace

template <class T, class C>
bool MatmulByOneDnn(Device& device, const Gemm<T, C>& g) {
  const Key key{.m = g.m,
                .n = g.n,
                .k = g.k,
                .a_transposed = g.a.transposed,
                .b_transposed = g.b.transposed,
                .a_stride = g.a.stride,
                .b_stride = g.b.stride,
                .c_stride = g.c_stride,
                .inputs = kOneDnnType<T>,
                .output = kOneDnnType<C>,
                .accumulate = g.c.accumulate};
  return device.Resource<OneDnnProducts>().Run(key, const_cast<T*>(g.a.data), const_cast<T*>(g.b.data),
                                               g.c.data);
}
template bool MatmulByOneDnn(Device&, const Gemm<float, float>&);
template bool MatmulByOneDnn(Device&, const Gemm<BF16, float>&);
template bool MatmulByOneDnn(Device&, const Gemm<BF16, BF16>&);

}  // namespace gradsync::model::kernels
