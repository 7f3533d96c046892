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

// x and y are (rows, row_pairs, 2), where rows are batch * seq and the pairs of a row heads * pairs.
template <class T>
__global__ void RopeKernel(const T* x, const Wide<T>* table, int64_t rows, int64_t seq, unsigned row_pairs,
                           unsigned pairs, bool inverse, T* y, bool accumulate) {
  using W = Wide<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const W* const rotations = table + row % seq * (2 * int64_t{pairs});
    const int64_t first = row * row_pairs;
    // In 32 bits, which no row exceeds: a division in 64 takes longer than all else that is done to a pair.
    for (unsigned i = threadIdx.x; i < row_pairs; i += blockDim.x) {
      const W* const rotation = rotations + 2 * (i % pairs);
      const W cosine = rotation[0], sine = inverse ? -rotation[1] : rotation[1];
      const int64_t at = 2 * (first + i);
      const W a = Widen(x[at]), b = Widen(x[at + 1]);
      Store(y + at, a * cosine - b * sine, accumulate);
      Store(y + at + 1, a * sine + b * cosine, accumulate);
    }
  }
}

}  // namespace

template <class T>
void Rope<T>::OnCuda(Device& device) const {
  const int64_t pairs = shape.head_dim / 2;
  const int64_t rows = shape.batch * shape.seq;
  const int64_t row_pairs = shape.num_heads * pairs;
  if (rows == 0 || row_pairs == 0) return;
  const Wide<T>* table = device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, shape.head_dim, theta);
  Launch(device, "Rope", RopeKernel<T>, LoopBlocks(device, rows * kThreads), kThreads, 0, x, table, rows,
         shape.seq, row_pairs, pairs, inverse, y.data, y.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCuda);

}  // namespace gradsync::model::kernels
