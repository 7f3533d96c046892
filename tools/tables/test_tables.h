#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/analysis/rows.h"
#include "tools/measurements/measurement.h"
#include "tools/tables/parts/table.h"

namespace gradsync::tools {

inline constexpr int64_t kMs = 1000000;

size_t ColumnOf(const Table& table, std::string_view name);
double Number(const Table& table, size_t row, std::string_view column);
std::string Text(const Table& table, size_t row, std::string_view column);

using Change = std::function<void(bench::Record&)>;

// Returns an invented measurement of a training on two ranks, as if //bench:ddp had made it. The function
// `change` modifies each rank's record before the two ranks' records are combined into the measurement. The
// training has four steps, which take 20, 20, 30 and 40 ms, multiplied by `factor`, on the slower rank of
// each step.
Measurement Ddp(std::string_view strategy, int64_t factor, const Change& change = {});

// Returns the measurement that Ddp(strategy, factor) returns, but with the given batch size, sequence length
// and run id.
Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run = "run1");

// Returns an invented measurement of a training in which step i takes steps_ms[i] on both of two ranks.
// Forward takes 2 ms of each step.
Measurement Steady(std::string_view strategy, const std::vector<double>& steps_ms, const Change& change = {});
// Returns times of `count` steps, in ms, which deviate from `mean_ms` by up to 2 %. A different `phase` gives
// different deviations.
std::vector<double> Wobble(double mean_ms, size_t count, int phase);
// Returns the times of 24 steps, in ms; they are alternately about 12 ms longer and 12 ms shorter than
// `mean_ms`.
std::vector<double> WithWideNoise(double mean_ms);

// The times, in ms, of the parts of a training step. The test helper Made() invents a measurement with these
// times. Rank 1 of the measurement has exactly these times. Rank 0 has a backward that is 4 ms shorter, and a
// wait for gradients (`exposed`) that is longer by 4 ms plus the argument `early_ms` of Made().
struct Phases {
  double begin_step = 0;
  double forward = 5;
  double backward = 15;
  double hooks = 0;
  double exposed = 0;
  double optimizer = 2;
};

// Returns an invented measurement of a training on two ranks, whose steps have the times in `steps` (see
// Phases). At the start of each step, rank 0 leaves the barrier `early_ms` before rank 1.
Measurement Made(std::string_view strategy, const std::vector<Phases>& steps, double early_ms = 0,
                 const std::string& run = "run", const Change& change = {});
// Returns `count` steps like `phases`, but the backward of step i is longer by 0.1 * (i % 5) ms.
std::vector<Phases> Steps(const Phases& phases, size_t count = 24);

// For tests: the result tables that AddAllTables makes from groups of measurements.
struct Tabled {
  std::vector<Group> groups;
  std::vector<Setting> measured;
  Settings settings;
  std::vector<Table> tables;

  Tabled(std::vector<Group> all, std::string_view baseline_row = kDefaultBaseline);
  Tabled(const Tabled&) = delete;

  const Table& table(std::string_view name) const;
  bool has(std::string_view name) const;
  const Row& row(std::string_view variant) const;  // in any setting
  // Returns the comparison of the row of `variant` with its baseline; `row` and `base` of the result are null
  // if the row is not compared. Throws std::out_of_range if there is no row of `variant`.
  Comparison comparison(std::string_view variant) const;
  Cost cost(std::string_view variant) const;
  // Returns the findings of a table (sentences about what its data show), joined to one text; empty if there
  // is no table of this name.
  std::string findings(std::string_view name) const;
};

}  // namespace gradsync::tools
