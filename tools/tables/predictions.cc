#include "tools/tables/predictions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "model/error.h"
#include "tools/predict/calibrate.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Record;

std::string LaunchSet(const Record& record) { return record.facts.StringOr("launch_set", record.run_id); }

// What a calibration has to have in common with a row, beside the backend.
std::string PlaceOf(const Record& record) {
  return Join(record.world_size, " ranks, ", record.config.IntOr("link_rate", 0), " bit/s, ",
              record.config.StringOr("device", ""));
}

class Predictor {
 public:
  Predictor(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations) {
    Problems ignored;  // whoever read the inputs has named them
    floors_ = ReadEach(inputs, &ignored);
    std::erase_if(floors_, [](const Record& record) {
      return record.experiment != "ddp" || record.variant.strategy != record.facts.StringOr("floor", "");
    });
    calibrations_ = ReadAny(calibrations);
  }

  std::optional<Prediction> Predict(const Record& row) {
    std::optional<StepPlan> plan = PlanOf(row);
    if (!plan) return std::nullopt;
    const std::optional<Calibration>& calibration = Calibrated(row);
    if (!calibration) return std::nullopt;
    StepInputs inputs{.plan = std::move(*plan), .world_size = row.world_size, .calibration = *calibration};
    Records floors;
    for (const Record& floor : floors_) {
      if (LaunchSet(floor) == LaunchSet(row) && CellOf(floor) == CellOf(row)) floors.push_back(&floor);
    }
    inputs.rounds = RoundsOf(floors);
    if (inputs.rounds.empty()) return std::nullopt;
    for (const int64_t bytes : floors.front()->parameter_bytes)
      inputs.parameter_bytes.push_back(static_cast<double>(bytes));
    return PredictStep(inputs);
  }

 private:
  const std::optional<Calibration>& Calibrated(const Record& row) {
    const std::string model = row.config.StringOr("model", "");
    const std::string key =
        Join(model, ", ", row.variant.backend, ", ", PlaceOf(row), ", not ", LaunchSet(row));
    const auto [found, is_new] = by_place_.try_emplace(key);
    if (!is_new) return found->second;
    Records records;
    for (const Record& record : calibrations_) {
      if (PlaceOf(record) == PlaceOf(row) && LaunchSet(record) != LaunchSet(row)) records.push_back(&record);
    }
    return found->second = CalibrationOf(records, row.variant.backend, model);
  }

  std::vector<Record> floors_, calibrations_;
  std::map<std::string, std::optional<Calibration>> by_place_;
};

}  // namespace

void AddPredictions(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations,
                    std::vector<Cell>* cells) {
  Predictor predictor(inputs, calibrations);
  for (Cell& cell : *cells) {
    if (cell.experiment != "ddp") continue;
    for (Row& row : cell.rows) {
      if (!row.is_floor() && !row.is_peer()) row.predicted = predictor.Predict(row.measured->record);
    }
  }
}

double PredictionError(const Row& row) {
  return row.predicted ? row.predicted->step_s.value / row.step_s - 1 : kNaN;
}

double CostPredictionError(const Row& row) {
  return row.predicted ? row.predicted->cost_s.value / row.cost.total.value - 1 : kNaN;
}

double SecondRunError(const Row& row) {
  const Series* const steps = row.measured->Find("step_ns");
  if (steps == nullptr) return kNaN;
  LooseSample sample{.values = steps->max};
  for (const Launch& launch : row.measured->launches) sample.launches.push_back(launch.num_steps);
  return SecondRunError(sample);
}

std::string IsExplained(const Row& row) {
  if (!row.predicted) return "";
  const auto half = [](const Interval& interval) { return interval.is_known() ? interval.half_width() : 0; };
  const double apart = std::abs(row.predicted->step_s.value - row.step_s);
  return apart <= half(row.predicted->step_s.interval) + half(row.cost.total.interval) ? "yes"
                                                                                       : "unexplained";
}

}  // namespace gradsync::tools
