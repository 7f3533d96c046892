// What --trace and --profile of //bench:ddp write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/programs/ddp_test.h"

namespace gradsync::bench {
namespace {

// Sums of a trace: the waits of each step that count, in us, by strategy and step.
std::map<std::pair<std::string, int>, double> CountedWaits(const nlohmann::json& trace) {
  std::map<std::pair<std::string, int>, double> sums;
  std::map<std::pair<std::string, int>, std::pair<double, double>> syncs;
  const auto of = [](const nlohmann::json& event) {
    return std::pair<std::string, int>(event.at("args").at("strategy"), event.at("args").at("step"));
  };
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") != "sync_exposed") continue;
    syncs[of(event)] = {event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>()};
    sums[of(event)] += event.at("dur").get<double>();
  }
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") != "wait" || !event.at("args").at("counted")) continue;
    const auto& [begin, end] = syncs.at(of(event));
    if (event.at("ts") < begin || event.at("ts") >= end) sums[of(event)] += event.at("dur").get<double>();
  }
  return sums;
}

// It has all timed steps, and no other.
TEST(DdpTraceTest, TheWaitsOfATraceAreThoseOfTheRecord) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(
      kDdp, Micro(out, {"--strategies=naive,core,core_update,zero1,zero3", "--trace", "--profile"}));
  ASSERT_EQ(result.status, 0) << result.err;
  std::map<int, std::map<std::pair<std::string, int>, double>> waits;  // by rank
  for (const std::string& path : FilesIn(out, ".trace.json")) {
    const nlohmann::json trace = nlohmann::json::parse(ReadText(path));
    waits[trace.at("traceEvents").at(0).at("pid")] = CountedWaits(trace);
    int of_naive = 0;
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      of_naive += event.at("ph") == "X" && event.at("name") == "all_reduce" &&
                  event.at("args").at("strategy") == "naive@gloo";
    }
    EXPECT_EQ(of_naive, 3 * (3 + 2 * 9)) << "a collective for each parameter and step";
  }
  ASSERT_EQ(waits.size(), 2u);
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 10u);
  for (const Record& record : records) {
    EXPECT_EQ(waits.at(static_cast<int>(record.rank)).size(), 5u * 3u);
    for (int step = 0; step < 3; ++step) {
      const auto times = TimesAt(record.samples, static_cast<size_t>(step));
      const double expected_us = 1e-3 * static_cast<double>(*times.waits());
      EXPECT_NEAR(waits.at(static_cast<int>(record.rank)).at({record.variant.name(), step}), expected_us,
                  0.01 * expected_us)
          << record.variant.name();
    }
  }
}

TEST(DdpTraceTest, TheProfileSetsAStepBesideItsLimit) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(kDdp, Micro(out, {"--strategies=none,core,zero3", "--profile"}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* const row : {"none, batch ", "core:bucket_bytes=4Ki@gloo, batch ", "forward +linear ",
                                "backward +attention ", "sync +waits ", "optimizer +adamw ",
                                "At the peak of .* GFLOP/s .* the arithmetic takes .* ms of the step's "}) {
    EXPECT_THAT(result.out, testing::ContainsRegex(row));
  }
  const std::vector<Record> records = RecordsIn(out);
  EXPECT_EQ(records.size(), 6u);
  for (const Record& record : records) {
    ExpectOneCompleteRecord(record, 3);
    EXPECT_GT(record.facts.DoubleOr("peak_flops_per_second", 0), 1e8);
    // The rows leave nothing of a step out, and count nothing twice.
    std::vector<int64_t> sums(3);
    for (const auto& [name, samples] : record.samples) {
      ASSERT_EQ(samples.size(), 3u) << name;
      for (size_t i = 0; i < 3; ++i) sums[i] += name.find('.') == std::string::npos ? 0 : samples[i];
    }
    for (size_t i = 0; i < 3; ++i) {
      const StepTimes times = TimesAt(record.samples, i);
      EXPECT_EQ(sums[i], times.step());
      EXPECT_EQ(record.samples.at("sync.exposed_ns")[i], times.waits());
      // Operations follow each other, so they cannot take longer than forward, in which zero3 waits.
      EXPECT_GE(record.samples.at("forward.other_ns")[i], 0) << record.variant.name();
    }
  }
}

}  // namespace
}  // namespace gradsync::bench
