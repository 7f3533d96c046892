// Rotary positions: a block per position, with the rotations of all positions in a table that stays on the
// GPU.

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "model/kernels/cuda_support.h"
#include "model/kernels/rope.h"

namespace gradsync::model::kernels {
namespace {

// The rotations of positions 0 to rows - 1.
template <class T>
struct RopeTable {
  T* data = nullptr;  // (rows, head_dim / 2, 2): cosine and sine
  int64_t rows = 0;
};

template <class T>
class RopeTables {
 public:
  explicit RopeTables(Device& device) : device_(device) {}
  ~RopeTables() {
    for (const auto& [key, table] : tables_) device_.allocator().Free(table.data);
  }
  RopeTables(const RopeTables&) = delete;
  RopeTables& operator=(const RopeTables&) = delete;

  // At least seq rows. Waits for the GPU when a sequence is longer than those before it.
  const T* Get(int64_t seq, int64_t head_dim, double theta) {
    RopeTable<T>& table = tables_[{head_dim, theta}];
    if (table.rows < seq) {
      std::vector<T> values = Rotations(seq, head_dim, theta);
      const size_t bytes = values.size() * sizeof(T);
      T* const data = static_cast<T*>(device_.allocator().Allocate(bytes));
      device_.Copy(data, values.data(), bytes);
      if (table.data != nullptr) device_.allocator().Free(table.data);
      table = {.data = data, .rows = seq};
    }
    return table.data;
  }

 private:
  // Angles in f64, as on the CPU: at a large position an f32 angle has few digits left behind the point.
  static std::vector<T> Rotations(int64_t seq, int64_t head_dim, double theta) {
    std::vector<T> values;
    for (int64_t position = 0; position < seq; ++position) {
      for (int64_t i = 0; i < head_dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
        const double angle = static_cast<double>(position) * std::pow(theta, exponent);
        values.push_back(static_cast<T>(std::cos(angle)));
        values.push_back(static_cast<T>(std::sin(angle)));
      }
    }
    return values;
  }

  Device& device_;
  std::map<std::pair<int64_t, double>, RopeTable<T>> tables_;  // by head_dim and theta
};

// x and y are (batch * seq, num_heads * pairs, 2).
template <class T>
__global__ void RopeKernel(Rope<T> rope, const Wide<T>* table) {
  using W = Wide<T>;
  const HeadShape& shape = rope.shape;
  const unsigned pairs = shape.head_dim / 2, row_pairs = shape.d_model() / 2;
  for (int64_t row = blockIdx.x; row < shape.batch * shape.seq; row += gridDim.x) {
    const W* const rotations = table + row % shape.seq * shape.head_dim;
    const int64_t first = row * row_pairs;
    // In 32 bits, which no row exceeds: a division in 64 takes longer than all else that is done to a pair.
    for (unsigned i = threadIdx.x; i < row_pairs; i += blockDim.x) {
      const W* const rotation = rotations + 2 * (i % pairs);
      const W cosine = rotation[0], sine = rope.inverse ? -rotation[1] : rotation[1];
      const int64_t at = 2 * (first + i);
      const W a = Widen(rope.x[at]), b = Widen(rope.x[at + 1]);
      Store(rope.y.data + at, a * cosine - b * sine, rope.y.accumulate);
      Store(rope.y.data + at + 1, a * sine + b * cosine, rope.y.accumulate);
    }
  }
}

}  // namespace

template <class T>
void Rope<T>::OnCuda(Device& device) const {
  const int64_t rows = shape.batch * shape.seq;
  if (rows * shape.d_model() == 0) return;
  const Wide<T>* table = device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, shape.head_dim, theta);
  LaunchLoop(device, "Rope", RopeKernel<T>, rows * kThreads, *this, table);
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCuda);

}  // namespace gradsync::model::kernels
