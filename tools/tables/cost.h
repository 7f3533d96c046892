#ifndef GRADSYNC_TOOLS_TABLES_COST_H_
#define GRADSYNC_TOOLS_TABLES_COST_H_

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/intervals.h"
#include "tools/tables/training_rows.h"

// What synchronisation costs, and where the cost lies.
namespace gradsync::tools {

// A mean, in seconds or as a part of the step, and its interval; NaN if unknown.
struct Estimate {
  double mean = std::numeric_limits<double>::quiet_NaN();
  Interval interval{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  size_t number = Intervals::kNone;
};

// Against `none` in the rounds that both have; per step, with maxima over ranks:
//   sync_cost = step - none's step, which its parts add up to:
//   exposed   = (forward + backward + sync) - (forward + backward): waited for after the last rank's backward
//   tax       = (forward + backward) - none's: computation that takes longer beside communication
//   rest      = what is left: the optimizer, and what the strategy does besides
//   fraction  = sync_cost / step
struct Cost {
  Estimate sync_cost;
  Estimate exposed;
  Estimate tax;
  Estimate rest;
  Estimate fraction;

  // `floor`: null if there is none, and then all but `exposed` is unknown. All is of the floor itself.
  Cost(const Measurement& own, const Measurement* floor, Intervals* intervals);
  // Once the intervals are computed.
  void TakeIntervals(const Intervals& intervals);
};

struct CostPart {
  const char* name;
  Estimate Cost::*part;
};
inline constexpr CostPart kCostParts[] = {
    {"sync_cost", &Cost::sync_cost}, {"exposed", &Cost::exposed}, {"tax", &Cost::tax}, {"rest", &Cost::rest}};

// Columns of a Row that has a `cost`: "sync_cost (s)", ..., "fraction_cost", "skew (s)", each but the last
// with its interval. `unit`: "s" or "ms".
template <class Row>
void AppendCostFields(const std::string& unit, int section, std::vector<Field<Row>>* fields) {
  const double scale = unit == "s" ? 1 : 1e3;
  const auto add = [&](const std::string& name, const std::string& end, Kind kind, double factor,
                       Estimate Cost::*part) {
    fields->push_back({{.name = name + end, .kind = kind, .section = section},
                       [=](const Row& row) { return factor * (row.cost.*part).mean; }});
    fields->push_back({{.name = name + "_low" + end,
                        .kind = kind,
                        .section = section,
                        .interval_name = Join("95 % CI of ", name)},
                       [=](const Row& row) { return factor * (row.cost.*part).interval.low; }});
    fields->push_back({{.name = name + "_high" + end, .kind = kind, .audience = Audience::kMachines},
                       [=](const Row& row) { return factor * (row.cost.*part).interval.high; }});
  };
  for (const auto& [name, part] : kCostParts) add(name, " (" + unit + ")", Kind::kDecimal, scale, part);
  add("fraction_cost", "", Kind::kFraction, 1, &Cost::fraction);
  fields->push_back({{.name = "skew (" + unit + ")", .section = section},
                     [=](const Row& row) { return scale * MeanOf(row.own, kSkew); }});
}

// Columns of a Row, which is Measured: how long communication is in flight, what of it hides behind backward,
// what it is made of. `unit`: "s" or "ms".
template <class Row>
void AppendCommunicationFields(const std::string& unit, int section, std::vector<Field<Row>>* fields) {
  const double scale = unit == "s" ? 1 : 1e3;
  const auto add = [&](const char* name, const char* samples) {
    fields->push_back({{.name = Join(name, " (", unit, ")"), .section = section},
                       [=](const Row& row) { return scale * MeanOf(row.own, samples); }});
  };
  add("comm_busy", "comm_busy_ns");
  fields->push_back({{.name = "overlap", .kind = Kind::kFraction, .section = section}, [](const Row& row) {
                       const double busy_s = MeanOf(row.own, "comm_busy_ns");
                       const double none = std::numeric_limits<double>::quiet_NaN();
                       return busy_s > 0 ? 1 - MeanOf(row.own, "sync_exposed_ns") / busy_s : none;
                     }});
  add("comm_waiting", kCommWaiting);
  add("comm_moving", kCommMoving);
}

// Columns of a Row, which is Measured: what all ranks got done per second, and the processor time of one
// rank's process, on average.
template <class Row>
void AppendWorkFields(int section, Audience audience, std::vector<Field<Row>>* fields) {
  const auto add = [&](const char* name, Kind kind, const auto& value) {
    fields->push_back(
        {{.name = name, .kind = kind, .audience = audience, .digits = 3, .section = section}, value});
  };
  const auto fact = [](const Row& row, const char* name) {
    return row.own.record.facts.DoubleOr(name, std::numeric_limits<double>::quiet_NaN());
  };
  const auto per_second = [fact](const char* name) {
    return [=](const Row& row) { return fact(row, name) / MeanOf(row.own, "step_ns"); };
  };
  const auto rank_seconds = [](const char* name) {
    return OfTimes(name, [](const Series& series) { return Mean(series.rank_means); });
  };
  add("tokens/s", Kind::kDecimal, per_second("tokens_per_step"));
  add("images/s", Kind::kDecimal, per_second("images_per_step"));
  add("GFLOP/s", Kind::kDecimal, [](const Row& row) { return 1e-9 * FlopsPerSecond(row.own); });
  add("share_of_peak", Kind::kFraction,
      [fact](const Row& row) { return FlopsPerSecond(row.own) / fact(row, "peak_flops_per_second"); });
  add("compute_cpu (s)", Kind::kDecimal, rank_seconds("compute_cpu_ns"));
  add("communication_cpu (s)", Kind::kDecimal, rank_seconds("communication_cpu_ns"));
}

// What the columns mean, or how to get them if no row has them.
void AddCostNotes(bool has_cost, Table* table);
void AddCommunicationNotes(Table* table);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_COST_H_
