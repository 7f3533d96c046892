#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <utility>
#include <vector>

#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/rope.h"

namespace gradsync::model::kernels {
namespace {

// The rotations of all positions as complex numbers of length one: a pair (a, b) is rotated by multiplying
// a + ib.
template <class T>
class RopeTables {
 public:
  explicit RopeTables(Device&) {}

  // (at least seq, head_dim / 2). Angles are computed in f64: at a large position an f32 angle has few
  // digits left behind the point.
  const std::complex<T>* Get(int64_t seq, int64_t head_dim, double theta) {
    std::vector<std::complex<T>>& table = tables_[{head_dim, theta}];
    const int64_t pairs = head_dim / 2;
    for (int64_t position = static_cast<int64_t>(table.size()) / pairs; position < seq; ++position) {
      for (int64_t i = 0; i < pairs; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
        const double angle = static_cast<double>(position) * std::pow(theta, exponent);
        table.emplace_back(static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle)));
      }
    }
    return table.data();
  }

 private:
  std::map<std::pair<int64_t, double>, std::vector<std::complex<T>>> tables_;  // by head_dim and theta
};

}  // namespace

template <class T>
void Rope<T>::OnCpu(Device& device) const {
  using Complex = std::complex<Wide<T>>;
  const int64_t dim = shape.head_dim, pairs = dim / 2;
  const Complex* table = device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, dim, theta);
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
