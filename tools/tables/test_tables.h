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
#include "tools/tables/table.h"

// Helpers for tests of tables: they make measurements, and read tables.
namespace gradsync::tools {

inline constexpr int64_t kMs = 1000000;

// Throws std::out_of_range if the table has no such column.
size_t ColumnOf(const Table& table, std::string_view name);
double Number(const Table& table, size_t row, std::string_view column);
std::string Text(const Table& table, size_t row, std::string_view column);

using Change = std::function<void(bench::Record&)>;

// Returns a measurement of two ranks of DdpRecord, after `change`. The steps of the slowest rank take 20, 20,
// 30 and 40 ms, multiplied by `factor`.
Measurement Ddp(std::string_view strategy, int64_t factor, const Change& change = {});

// Returns this measurement with a batch size and a sequence length.
Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run = "run1");

// Returns a measurement of two ranks whose steps take `steps_ms`. Forward takes 2 ms, and all other phases
// are proportional to the step.
Measurement Steady(std::string_view strategy, const std::vector<double>& steps_ms, const Change& change = {});
// Returns `count` step times: `mean_ms` with deterministic deviations of up to 2 %. `phase` must differ
// between variants.
std::vector<double> Wobble(double mean_ms, size_t count, int phase);
// Returns 24 steps around `mean_ms`, every other one 12 ms longer and the others 12 ms shorter.
std::vector<double> WithWideNoise(double mean_ms);

// The phases of a step of both ranks, in ms. Rank 0 computes for 4 ms less than rank 1, and waits for rank 1.
struct Phases {
  double begin_step = 0;
  double forward = 5;
  double backward = 15;
  double hooks = 0;
  double exposed = 0;
  double optimizer = 2;
};

// Returns a measurement in which rank 0 leaves the barrier `early_ms` before rank 1 in every step.
Measurement Made(std::string_view strategy, const std::vector<Phases>& steps, double early_ms = 0,
                 const std::string& run = "run", const Change& change = {});
// Returns `count` steps with small differences, which are equal for all strategies.
std::vector<Phases> Steps(const Phases& phases, size_t count = 24);

// Owns groups, and the settings and tables that are made of the groups.
struct Tabled {
  std::vector<Group> groups;
  std::vector<Setting> measured;
  Settings settings;
  std::vector<Table> tables;

  Tabled(std::vector<Group> all, std::string_view baseline_row = kDefaultBaseline);
  Tabled(const Tabled&) = delete;

  // Returns the table of this name. Throws std::out_of_range if there is no such table.
  const Table& table(std::string_view name) const;
  bool has(std::string_view name) const;
  const Row& row(std::string_view variant) const;  // searches all settings
  // Returns the comparison of the variant's row; it has no rows if the row is not compared.
  Comparison comparison(std::string_view variant) const;
  Cost cost(std::string_view variant) const;
  // Returns all sentences of a table, one after the other.
  std::string findings(std::string_view name) const;
};

}  // namespace gradsync::tools
