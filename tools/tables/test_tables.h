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

// Returns a measurement of two ranks in //bench:ddp. The function `change` modifies each rank's record before
// the two records are combined. There are four steps. On the slower rank of each step, they take 20, 20, 30
// and 40 ms, multiplied by `factor`.
Measurement Ddp(std::string_view strategy, int64_t factor, const Change& change = {});

// Returns the measurement that Ddp(strategy, factor) returns, but with this batch size, sequence length and
// run id.
Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run = "run1");

// Returns a measurement of two ranks whose steps take `steps_ms` on both ranks. Forward takes 2 ms of each
// step.
Measurement Steady(std::string_view strategy, const std::vector<double>& steps_ms, const Change& change = {});
// Returns `count` times in ms, which deviate from `mean_ms` by up to 2 %. A different `phase` gives different
// deviations.
std::vector<double> Wobble(double mean_ms, size_t count, int phase);
// Returns the times of 24 steps, in ms; they are alternately about 12 ms longer and 12 ms shorter than
// `mean_ms`.
std::vector<double> WithWideNoise(double mean_ms);

// The times of the parts of a step, in ms. Made() gives rank 1 exactly these times. It gives rank 0 a
// backward that is 4 ms shorter, and a wait for gradients (`exposed`) that is longer by 4 ms plus its
// argument `early_ms`.
struct Phases {
  double begin_step = 0;
  double forward = 5;
  double backward = 15;
  double hooks = 0;
  double exposed = 0;
  double optimizer = 2;
};

// Returns a measurement of two ranks, whose steps have the times in `steps` (see Phases). At the start of
// each step, rank 0 leaves the barrier `early_ms` before rank 1.
Measurement Made(std::string_view strategy, const std::vector<Phases>& steps, double early_ms = 0,
                 const std::string& run = "run", const Change& change = {});
// Returns `count` steps like `phases`, but with a backward that is 0 to 0.4 ms longer. Each call adds the
// same times.
std::vector<Phases> Steps(const Phases& phases, size_t count = 24);

// For tests: makes all tables from groups of measurements, and owns these groups, their settings and the
// tables.
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
  // if the row is not compared.
  Comparison comparison(std::string_view variant) const;
  Cost cost(std::string_view variant) const;
  // Returns the findings of a table (sentences about what its data show), joined to one text; empty without
  // this table.
  std::string findings(std::string_view name) const;
};

}  // namespace gradsync::tools
