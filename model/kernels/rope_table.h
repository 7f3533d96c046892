#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "model/tensor/device.h"

namespace gradsync::model::kernels {

// The cosines and sines of rotary position embedding for one head_dim and one theta, and for positions 0 to
// rows - 1, in device memory.
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
    for (const auto& [key, table] : tables_) {
      if (table.data != nullptr) device_.allocator().Free(table.data);
    }
  }
  RopeTables(const RopeTables&) = delete;
  RopeTables& operator=(const RopeTables&) = delete;

  // Returns RopeTable::data of the table for `head_dim` and `theta`, with at least `seq` rows (positions). If
  // no table has enough rows, Get makes one, and frees the shorter table if there is one. To make a table on
  // CUDA, Get waits for all work on the compute stream.
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
  // Returns the elements of RopeTable::data for positions 0 to seq - 1: cosine and sine of each angle.
  // Computes angles in f64, because large angles have few digits after the point in f32.
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
  std::map<std::pair<int64_t, double>, RopeTable<T>> tables_;  // tables by head_dim and theta
};

}  // namespace gradsync::model::kernels
