#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

// Over which links a strategy pays: of runs that differ in the rate of the link alone (`link_rate`), the rate
// below which its step is shorter than the baseline's.
namespace gradsync::tools {
namespace {

struct OverLinks {
  View any;
  std::map<double, View> by_rate;  // bits per second

  Estimate At(double rate) const {
    const auto found = by_rate.find(rate);
    return found == by_rate.end() ? Estimate{} : Scaled(found->second.row.against_baseline, 100);
  }
};

std::string RateText(double rate) {
  return rate < 1e9 ? Join(std::llround(rate / 1e6), " Mbit/s") : Join(rate / 1e9, " Gbit/s");
}

// What intervals show: the highest rate with a faster step, and the lowest above it with a slower one.
std::string BoundsOf(const OverLinks& row) {
  double faster = 0, slower = 0;
  for (const auto& [rate, view] : row.by_rate) {
    if (view.row.verdict == Verdict::kFaster) faster = rate, slower = 0;
    if (view.row.verdict == Verdict::kSlower && slower == 0) slower = rate;
  }
  if (faster > 0 && slower > 0) return Join(RateText(faster), " to ", RateText(slower));
  if (faster > 0) return "more than " + RateText(faster);
  return slower > 0 ? "less than " + RateText(slower) : "not shown";
}

// Where the difference of steps changes its sign. Between two rates it is taken to be linear in the time that
// a byte takes.
double CrossingOf(const OverLinks& row) {
  double crossing = kNaN;
  double last_time = 0, last = 0;
  for (const auto& [rate, view] : row.by_rate) {
    const double time = 1e9 / rate;
    const double difference = view.row.against_baseline.value * view.base()->step_s;
    if (last < 0 && difference >= 0)
      crossing = 1 / (time + (last_time - time) * difference / (difference - last));
    last_time = time, last = difference;
  }
  return crossing;
}

std::vector<Field<OverLinks>> FieldsFor(const std::set<double>& rates) {
  std::vector<Field<OverLinks>> fields = {
      {{.name = "variant", .kind = Kind::kText}, [](const OverLinks& row) { return row.any.row.variant(); }},
      {{.name = "faster below", .kind = Kind::kText}, BoundsOf},
      {{.name = "estimate (Gbit/s)", .digits = 2}, CrossingOf}};
  for (const double rate : rates) {
    fields.push_back({{.name = Join("delta at ", RateText(rate), " (%)"), .kind = Kind::kPercent},
                      [rate](const OverLinks& row) { return row.At(rate); }});
  }
  fields.push_back({{.name = "verified", .kind = Kind::kText},
                    [](const OverLinks& row) { return EqualityOf(row.any.measured()); }});
  fields.push_back({{.name = "baseline", .kind = Kind::kText, .said_once = true},
                    [](const OverLinks& row) { return row.any.base()->variant(); }});
  return fields;
}

}  // namespace

void AddLinksTables(const std::vector<Cell>& all, std::vector<Table>* tables) {
  const std::vector<Cell> cells = TrainingOf(all);
  std::vector<OverLinks> rows;
  std::map<std::string, size_t> numbers;
  std::set<double> rates;
  for (const Cell& cell : cells) {
    const double rate = ConfigNumber(*cell.any().measured, "link_rate");
    if (std::isnan(rate)) continue;
    for (size_t i = 0; i < cell.rows.size(); ++i) {
      const Row& row = cell.rows[i];
      if (row.baseline == Row::kNone || row.baseline == i) continue;
      Configuration configuration = ConfigurationOf(row.measured->record);
      configuration.erase("link_rate");
      const std::string key = Join(row.measured->world_size(), "\n", KeyOf(configuration));
      const auto [found, is_new] = numbers.emplace(key, rows.size());
      if (is_new) rows.push_back({{cell, row}, {}});
      rows[found->second].by_rate.emplace(rate, View{cell, row});
      rates.insert(rate);
    }
  }
  if (rates.size() < 2) return;
  TableOf<OverLinks> table("links", "Which strategy pays over which link", FieldsFor(rates));
  for (const OverLinks& row : rows) table.Add(row);
  table.AddNote(
      "faster below: the rate of the link, in each direction, below which a step is shorter than the "
      "baseline's: shown faster at the first of these rates and slower at the second. estimate: where the "
      "difference is zero, taken as linear in the time of a byte between measured rates. Intervals of one "
      "rate hold at once.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
