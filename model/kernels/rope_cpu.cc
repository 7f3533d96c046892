#include <complex>

#include "model/kernels/rope.h"
#include "model/kernels/rope_table.h"
#include "model/tensor/eigen.h"

namespace gradsync::model::kernels {

template <class T>
void Rope<T>::OnCpu(Device& device) const {
  using Complex = std::complex<Wide<T>>;
  const int64_t dim = shape.head_dim, pairs = dim / 2;
  if (shape.batch * shape.seq * dim == 0) return;
  // Complex numbers of length one: a pair (a, b) is rotated by multiplying a + ib.
  const auto* table =
      reinterpret_cast<const Complex*>(device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, dim, theta));
  const int64_t heads = shape.batch * shape.seq * shape.num_heads;
  ForRows<T>(device, heads, dim, [&](int64_t row, auto& read, auto&, auto& write) {
    const ConstArrayMap<Complex> rotation(table + row / shape.num_heads % shape.seq * pairs, pairs);
    const ConstArrayMap<Complex> from(reinterpret_cast<const Complex*>(read(x + row * dim, dim).data()),
                                      pairs);
    write(y.data + row * dim, dim, y.accumulate, [&](ArrayMap<Wide<T>> out) {
      ArrayMap<Complex> to(reinterpret_cast<Complex*>(out.data()), pairs);
      if (inverse) {
        Store(to, from * rotation.conjugate(), y.accumulate);
      } else {
        Store(to, from * rotation, y.accumulate);
      }
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCpu);

}  // namespace gradsync::model::kernels
