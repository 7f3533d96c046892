#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/records/measurement.h"
#include "tools/tables/rows.h"
#include "tools/tables/table.h"

// What tests of tables put in, and how they read what comes out.
namespace gradsync::tools {

inline constexpr int64_t kMs = 1000000;

// Throws std::out_of_range if the table has no such column.
size_t ColumnOf(const Table& table, std::string_view name);
double Number(const Table& table, size_t row, std::string_view column);
std::string Text(const Table& table, size_t row, std::string_view column);

using Change = std::function<void(bench::Record&)>;

// Two ranks of DdpRecord, after `change`. The slowest ranks' steps: 20, 20, 30, 40 ms, times `factor`.
Measurement Ddp(std::string_view strategy, int64_t factor, const Change& change = {});

// The same at a batch size and sequence length.
Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run = "run1");

// Two ranks whose steps are `steps_ms` long, all phases in proportion but for forward, which takes 2 ms.
Measurement Steady(std::string_view strategy, const std::vector<double>& steps_ms, const Change& change = {});
// `mean_ms` and a deterministic wobble of up to 2 %, in `count` rounds; `phase` tells variants apart.
std::vector<double> Wobble(double mean_ms, size_t count, int phase);

// What a step of both ranks is made of, in ms. Rank 0 computes 4 ms less than rank 1, and waits for it.
struct Phases {
  double begin_step = 0;
  double forward = 5;
  double backward = 15;
  double hooks = 0;
  double exposed = 0;
  double optimizer = 2;
};

// Rank 0 leaves the barrier so many ms before rank 1 in every step.
Measurement Made(std::string_view strategy, const std::vector<Phases>& steps, double early_ms = 0,
                 const std::string& run = "run", const Change& change = {});
// So many steps, of which each is a little different, for every strategy alike.
std::vector<Phases> Steps(const Phases& phases, size_t count = 24);

// Everything that is made of groups; the groups live here.
struct Tabled {
  std::vector<Group> groups;
  std::vector<Setting> measured;
  Settings settings;
  std::vector<Table> tables;

  Tabled(std::vector<Group> all, std::string_view baseline_row = kDefaultBaseline);
  Tabled(const Tabled&) = delete;

  // Throws std::out_of_range if there is none of that name.
  const Table& table(std::string_view name) const;
  bool has(std::string_view name) const;
  const Row& row(std::string_view variant) const;  // of any setting
  // Of that row; without rows if there is none.
  Comparison comparison(std::string_view variant) const;
  Cost cost(std::string_view variant) const;
  // All sentences of a table, one after the other.
  std::string findings(std::string_view name) const;
};

}  // namespace gradsync::tools
