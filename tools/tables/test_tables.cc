#include "tools/tables/test_tables.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_join.h"
#include "tools/measurements/test_records.h"
#include "tools/tables/all_tables.h"

namespace gradsync::tools {

using bench::Record;

size_t ColumnOf(const Table& table, std::string_view name) {
  for (size_t i = 0; i < table.columns().size(); ++i) {
    // A column for users and a column for machines may have equal names.
    if (table.columns()[i].name == name && table.columns()[i].audience != Audience::kPeople) return i;
  }
  throw std::out_of_range(std::string(name));
}

double Number(const Table& table, size_t row, std::string_view column) {
  return table.number(row, ColumnOf(table, column));
}

std::string Text(const Table& table, size_t row, std::string_view column) {
  return table.text(row, ColumnOf(table, column));
}

Measurement Ddp(std::string_view strategy, int64_t factor, const Change& change) {
  const int64_t ms = factor * kMs;
  std::vector<Record> ranks = {DdpRecord(strategy, 0, {10 * ms, 20 * ms, 30 * ms, 40 * ms}),
                               DdpRecord(strategy, 1, {20 * ms, 10 * ms, 30 * ms, 40 * ms})};
  for (Record& rank : ranks) {
    if (change) change(rank);
  }
  return CombineRanks(std::move(ranks));
}

Measurement AtPlace(std::string_view strategy, int64_t batch_size, int64_t seq_len, int64_t factor,
                    std::string_view run) {
  return Ddp(strategy, factor, [&](Record& rank) {
    rank.config.Set("batch_size", batch_size);
    rank.config.Set("seq_len", seq_len);
    rank.run_id = run;
  });
}

Measurement Steady(std::string_view strategy, const std::vector<double>& steps_ms, const Change& change) {
  std::vector<int64_t> steps;
  for (const double step : steps_ms) steps.push_back(std::llround(step * kMs));
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(DdpRecord(strategy, rank, steps));
    record.samples["forward_ns"] = Repeat(2 * kMs, steps.size());
    for (size_t i = 0; i < steps.size(); ++i) SetStep(record, i, steps[i]);
    if (change) change(record);
  }
  return CombineRanks(std::move(ranks));
}

std::vector<double> Wobble(double mean_ms, size_t count, int phase) {
  std::vector<double> steps;
  for (size_t i = 0; i < count; ++i) {
    steps.push_back(mean_ms * (1 + 0.02 * std::sin(1.7 * static_cast<double>(i) + 2.3 * phase)));
  }
  return steps;
}

std::vector<double> WithWideNoise(double mean_ms) {
  std::vector<double> wide = Wobble(mean_ms, 24, 2);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] += i % 2 == 0 ? 12 : -12;
  return wide;
}

Measurement Made(std::string_view strategy, const std::vector<Phases>& steps, double early_ms,
                 const std::string& run, const Change& change) {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record record = DdpRecord(strategy, rank, Repeat(kMs, steps.size()));
    const auto set = [&](SampleName name, const auto& value) {
      std::vector<int64_t>& samples = record.samples[name];
      samples.clear();
      for (size_t i = 0; i < steps.size(); ++i) samples.push_back(std::llround(kMs * value(steps[i], i)));
    };
    const double less = rank == 0 ? 4 : 0, early = rank == 0 ? early_ms : 0;
    set("begin_ns", [&](const Phases&, size_t i) { return 1000.0 * static_cast<double>(i) - early; });
    set("begin_step_ns", [](const Phases& p, size_t) { return p.begin_step; });
    set("forward_ns", [](const Phases& p, size_t) { return p.forward; });
    set("backward_ns", [&](const Phases& p, size_t) { return p.backward - less; });
    set("hooks_ns", [](const Phases& p, size_t) { return p.hooks; });
    set("sync_wait_ns", [&](const Phases& p, size_t) { return p.exposed + less + early; });
    set("optimizer_ns", [](const Phases& p, size_t) { return p.optimizer; });
    record.run_id = run;
    record.facts.Set("launch_set", "set");
    if (change) change(record);
    ranks.push_back(std::move(record));
  }
  return CombineRanks(std::move(ranks));
}

std::vector<Phases> Steps(const Phases& phases, size_t count) {
  std::vector<Phases> steps(count, phases);
  for (size_t i = 0; i < count; ++i) steps[i].backward += 0.1 * static_cast<double>(i % 5);
  return steps;
}

Tabled::Tabled(std::vector<Group> all, std::string_view baseline_row) : groups(std::move(all)) {
  measured = MakeSettings(groups, baseline_row);
  settings = NameSettings(measured);
  AddAllTables(settings, &tables);
}

const Table& Tabled::table(std::string_view name) const {
  const auto found = std::ranges::find(tables, name, &Table::name);
  if (found == tables.end()) throw std::out_of_range(std::string(name));
  return *found;
}

bool Tabled::has(std::string_view name) const { return std::ranges::count(tables, name, &Table::name) > 0; }

const Row& Tabled::row(std::string_view variant) const {
  for (const Setting& setting : measured) {
    for (const Row& row : setting.rows) {
      if (row.variant() == variant) return row;
    }
  }
  throw std::out_of_range(std::string(variant));
}

Comparison Tabled::comparison(std::string_view variant) const {
  const Row& own = row(variant);
  for (const Setting& setting : measured) {
    if (const Comparison found = setting.ComparisonOf(own); found.row != nullptr) return found;
  }
  return {};
}

Cost Tabled::cost(std::string_view variant) const {
  const Row& own = row(variant);
  for (const Setting& setting : measured) {
    if (const Cost found = setting.CostOf(own); found.row != nullptr) return found;
  }
  return {};
}

std::string Tabled::findings(std::string_view name) const {
  return has(name) ? absl::StrJoin(table(name).findings(), " ") : "";
}

}  // namespace gradsync::tools
