#include "tools/tables/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tools/records/test_records.h"
#include "tools/tables/summarize.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kSteps = 12;

// Steps of 100 ms on both ranks.
Record Training(std::string_view variant, int64_t rank, int64_t step_ms = 100) {
  Record record = DdpRecord(variant, rank, Repeat(step_ms * kMs, kSteps));
  record.samples["begin_ns"] = Repeat(0, kSteps);
  record.samples["begin_step_ns"] = Repeat(0, kSteps);
  record.samples["hooks_ns"] = Repeat(0, kSteps);
  return record;
}

std::vector<Record> Floor() {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(Training("none", rank));
    record.buckets.clear();
    record.parameter_bytes = {1000, 2000};
    for (size_t i = 0; i < kSteps; ++i) {
      record.moments["gradient_ready_ns"].push_back(60 * kMs);
      record.moments["gradient_ready_ns"].push_back(40 * kMs);
    }
  }
  return ranks;
}

// After backward, 3000 bytes at once.
std::vector<Record> Flat(int64_t step_ms) {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(Training("flat@gloo", rank, step_ms));
    record.facts.Set("overlaps", bench::Value(false));
    record.facts.Set("updates", "whole");
    record.buckets = {{3000, 2, "all_reduce", {0, 1}}};
  }
  return ranks;
}

// An all-reduce of 3000 bytes takes so long.
std::vector<Record> Calibration(int64_t ms, const std::string& run = "calibration") {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(AllReduceRecord(3000, rank, Repeat(ms * kMs, 3)));
    record.run_id = run;
    record.samples["communication_cpu_ns"] = Repeat(0, 3);
  }
  return ranks;
}

std::string Written(std::string_view name, std::initializer_list<std::vector<Record>> parts) {
  const std::string dir = FreshTestDir(name);
  std::vector<Record> all;
  for (const std::vector<Record>& part : parts) all.insert(all.end(), part.begin(), part.end());
  WriteLines(dir + "/all.jsonl", all);
  return dir;
}

const Row& RowOf(const Summary& summary, std::string_view variant) {
  for (const Cell& cell : summary.cells) {
    for (const Row& row : cell.rows) {
      if (row.variant() == variant) return row;
    }
  }
  throw std::out_of_range(std::string(variant));
}

TEST(PredictionsTest, ARowIsPredictedFromTheFloorAndACalibration) {
  const std::string run = Written("run", {Floor(), Flat(110)}),
                    calibration = Written("calibration", {Calibration(8)});
  const Summary summary = Summarize({run}, "", "", {calibration});
  const Row& flat = RowOf(summary, "flat@gloo");
  ASSERT_TRUE(flat.predicted.has_value());
  EXPECT_NEAR(flat.predicted->step_s.value, 0.108, 1e-9);
  EXPECT_NEAR(flat.predicted->cost_s.value, 0.008, 1e-9);
  EXPECT_NEAR(PredictionError(flat), 0.108 / 0.110 - 1, 1e-9);
  EXPECT_NEAR(CostPredictionError(flat), 0.008 / 0.010 - 1, 1e-9);
  EXPECT_FALSE(RowOf(summary, "none").predicted.has_value());
  for (const Table& table : summary.report.tables) {
    if (table.name() != "ddp") continue;
    EXPECT_NEAR(Number(table, 1, "predicted (s)"), 0.108, 1e-9);
    EXPECT_NEAR(Number(table, 1, "error (%)"), 100 * (0.108 / 0.110 - 1), 1e-9);
    EXPECT_NEAR(Number(table, 1, "cost error (%)"), -20, 1e-6);
    EXPECT_NEAR(Number(table, 1, "plain (s)"), 0.108, 1e-9);
    EXPECT_NEAR(Number(table, 1, "floor (s)"), 0.100, 1e-9);
    EXPECT_TRUE(std::isnan(Number(table, 0, "predicted (s)")));
  }
}

TEST(PredictionsTest, TheRowsOwnMeasurementsDoNotEnter) {
  const std::string calibration = Written("calibration", {Calibration(8)});
  const Summary one = Summarize({Written("one", {Floor(), Flat(110)})}, "", "", {calibration});
  const Summary other = Summarize({Written("other", {Floor(), Flat(300)})}, "", "", {calibration});
  const Prediction &a = *RowOf(one, "flat@gloo").predicted, &b = *RowOf(other, "flat@gloo").predicted;
  EXPECT_EQ(a.step_s, b.step_s);
  EXPECT_EQ(a.cost_s, b.cost_s);
  EXPECT_EQ(a.floor_s, b.floor_s);
  EXPECT_EQ(a.plain_s, b.plain_s);
}

TEST(PredictionsTest, ACalibrationIsAnotherRunOfTheSamePlace) {
  const std::string run = Written("run", {Floor(), Flat(110)});
  const std::string run_id = Floor()[0].run_id;
  const auto is_predicted = [&](const std::vector<Record>& calibration) {
    const Summary summary = Summarize({run}, "", "", {Written("calibration", {calibration})});
    return RowOf(summary, "flat@gloo").predicted.has_value();
  };
  EXPECT_TRUE(is_predicted(Calibration(8)));
  EXPECT_FALSE(is_predicted(Calibration(8, run_id)));
  std::vector<Record> changed = Calibration(8);
  for (Record& record : changed) record.config.Set("link_rate", 1'000'000);
  EXPECT_FALSE(is_predicted(changed));
  changed = Calibration(8);
  for (Record& record : changed) record.variant.backend = "shm";
  EXPECT_FALSE(is_predicted(changed));
  changed = Calibration(8);
  for (Record& record : changed) record.world_size = 4;
  EXPECT_FALSE(is_predicted(changed));
}

TEST(PredictionsTest, RowsFarFromTheirPredictionAreUnexplained) {
  const std::string calibration = Written("calibration", {Calibration(8)});
  const auto explained = [&](int64_t step_ms) {
    const Summary summary = Summarize({Written("run", {Floor(), Flat(step_ms)})}, "", "", {calibration});
    return IsExplained(RowOf(summary, "flat@gloo"));
  };
  EXPECT_EQ(explained(108), "yes");
  EXPECT_EQ(explained(120), "unexplained");
  EXPECT_EQ(IsExplained(Row()), "");
}

TEST(PredictionsTest, ASecondRunIsTheOtherLaunches) {
  Measurement measured;
  measured.series["step_ns"].max = {1, 1, 1, 2, 2};
  Row row;
  row.measured = &measured;
  measured.launches = {{"a", 3}, {"b", 2}};
  EXPECT_DOUBLE_EQ(SecondRunError(row), 1);
  measured.series.clear();
  EXPECT_TRUE(std::isnan(SecondRunError(row)));
}

}  // namespace
}  // namespace gradsync::tools
