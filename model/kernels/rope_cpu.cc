#include <algorithm>
#include <complex>

#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/rope.h"
#include "model/kernels/rope_table.h"

namespace gradsync::model::kernels {
template <class T>
void Rope<T>::OnCpu(Device& device) const {
  using Complex = std::complex<Wide<T>>;
  const int64_t dim = shape.head_dim, pairs = dim / 2;
  if (shape.batch * shape.seq * dim == 0) return;
  // Complex numbers of length one: a pair (a, b) is rotated by multiplying a + ib.
  const auto* table =
      reinterpret_cast<const Complex*>(device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, dim, theta));
  ParallelFor(
      device, shape.batch * shape.seq,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(dim);
        Writer<T> write(dim);
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<Complex> rotation(table + row % shape.seq * pairs, pairs);
          for (int64_t head = row * shape.num_heads; head < (row + 1) * shape.num_heads; ++head) {
            const ConstArrayMap<Complex> from(
                reinterpret_cast<const Complex*>(read(x + head * dim, dim).data()), pairs);
            write(y.data + head * dim, dim, y.accumulate, [&](ArrayMap<Wide<T>> out) {
              ArrayMap<Complex> to(reinterpret_cast<Complex*>(out.data()), pairs);
              if (inverse) {
                Store(to, from * rotation.conjugate(), y.accumulate);
              } else {
                Store(to, from * rotation, y.accumulate);
              }
            });
          }
        }
      },
      std::max<int64_t>(1, 8192 / (shape.num_heads * dim)));
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCpu);

}  // namespace gradsync::model::kernels
