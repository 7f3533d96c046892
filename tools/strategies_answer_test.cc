#include "tools/strategies_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <sstream>
#include <utility>

#include "model/error.h"
#include "tools/records/test_records.h"
#include "tools/statistics/estimates.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr int64_t kMs = 1'000'000;
constexpr size_t kSteps = 12;

// A rank whose step of 100 ms is 20 of forward, 40 of backward and 10 of the optimizer; `flat` and `overlap`
// send 3000 bytes, once or 2000 and 1000 as they are ready, 40 and 60 ms after the step's begin.
std::vector<Record> Plans() {
  Record floor = DdpRecord("none", 0, Repeat(100 * kMs, kSteps));
  using bench::SampleName;
  for (const SampleName name : {SampleName("begin_ns"), SampleName("begin_step_ns"), SampleName("hooks_ns")})
    floor.samples[name] = Repeat(0, kSteps);
  floor.world_size = 1;
  floor.buckets.clear();
  floor.parameter_bytes = {1000, 2000};
  for (size_t i = 0; i < kSteps; ++i) {
    floor.moments["gradient_ready_ns"].push_back(60 * kMs);
    floor.moments["gradient_ready_ns"].push_back(40 * kMs);
  }
  Record flat = DdpRecord("flat@gloo", 0, Repeat(1, kSteps)),
         overlap = DdpRecord("overlap@gloo", 0, Repeat(1, kSteps));
  flat.facts.Set("overlaps", bench::Value(false));
  flat.buckets = {{3000, 2, "all_reduce", {1, 0}}};
  overlap.buckets = {{2000, 1, "all_reduce", {1}}, {1000, 1, "all_reduce", {0}}};
  for (Record* const record : {&flat, &overlap}) record->facts.Set("updates", "whole");
  return {floor, flat, overlap};
}

std::vector<Record> Calibration() {
  std::vector<Record> ranks;
  for (const int64_t rank : {0, 1}) {
    Record& record = ranks.emplace_back(AllReduceRecord(3000, rank, Repeat(9 * kMs, 3)));
    record.samples["communication_cpu_ns"] = Repeat(0, 3);
  }
  return ranks;
}

std::string Written(std::string_view name, const std::vector<Record>& records) {
  const std::string dir = FreshTestDir(name);
  WriteLines(dir + "/all.jsonl", records);
  return dir;
}

std::string AnswerOf(const Place& place, const std::vector<std::string>& variants = {},
                     const std::vector<std::string>& calibrations = {}) {
  std::ostringstream out;
  PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                         .calibrations = calibrations,
                         .variants = variants,
                         .place = place},
                        out);
  return out.str();
}

TEST(StrategiesAnswerTest, PredictsOverALinkThatNobodyHas) {
  // 3 ms for 3000 bytes between two ranks at 1 MB/s, beside no latency; overlap has 2 of them before backward
  // ends.
  const std::string text = AnswerOf({.world_size = 2, .wire = Wire{1e6, 1e-9}, .processor = 0.0});
  EXPECT_THAT(text, HasSubstr("without synchronisation 100 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("overlap@gloo +101 "));
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo +103 "));
  // What is exposed, no less than the floor of any schedule, and how much longer than the fastest.
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo +103 +[0-9.]+ to [0-9.]+ +3 +1[0-9.]+ +\\+2.0\n"));
  EXPECT_LT(text.find("overlap@gloo"), text.find("flat@gloo"));
  EXPECT_THAT(text, HasSubstr("Fastest: overlap@gloo."));
  EXPECT_THAT(text, Not(HasSubstr("rank's processors")));
}

// Of a variant's line, in milliseconds.
Interval IntervalOf(const std::string& text, const std::string& variant) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(variant + " +[0-9.]+ +([0-9.]+) to ([0-9.]+)"))) return {};
  return {std::stod(found[1]), std::stod(found[2])};
}

TEST(StrategiesAnswerTest, WhatIsAssumedIsSaidAndWidens) {
  const std::string text = AnswerOf({.world_size = 2, .wire = Wire{1e6, 1e-9}});
  // 3 ms of a link that is known to 10 %.
  const Interval flat = IntervalOf(text, "flat@gloo");
  EXPECT_NEAR(flat.low, 103 - 1.96 * 3 * 0.095, 0.15);
  EXPECT_NEAR(flat.high, 103 + 1.96 * 3 * 0.105, 0.15);
  // The 2 ms beside backward take 0 to 0.6 of it, and a millisecond is after it.
  const Interval overlap = IntervalOf(text, "overlap@gloo");
  EXPECT_NEAR(overlap.low, 101 - 1.96 * 0.095, 0.1);
  EXPECT_NEAR(overlap.high, 101.6 + 1.96 * 1.6 * 0.105, 0.1);
  EXPECT_THAT(text, HasSubstr("Assumed: communication uses 0.1 (0 to 0.3) of a rank's processors."));
  EXPECT_THAT(text, HasSubstr("Assumed: the link is within 10 % of its data sheet"));
}

TEST(StrategiesAnswerTest, IntervalsThatOverlapAreUndecided) {
  EXPECT_THAT(AnswerOf({.world_size = 2, .wire = Wire{1e9, 1e-9}}),
              HasSubstr("Undecided, intervals overlap or differ by less than 1 %: "));
}

TEST(StrategiesAnswerTest, TakesACalibratedLink) {
  const std::string calibration = Written("calibration", Calibration());
  EXPECT_THAT(AnswerOf({.world_size = 2}, {"flat"}, {calibration}),
              ::testing::ContainsRegex("flat@gloo +109 "));
  // Around a ring of 4 ranks: 3 hops in place of 1, of half the bytes.
  const std::string text = AnswerOf({.world_size = 4}, {"flat"}, {calibration});
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo +113.5 "));
  EXPECT_THAT(text, HasSubstr("Assumed: collectives go around a ring."));
}

TEST(StrategiesAnswerTest, TakesCalibrationsOfOneWorld) {
  std::vector<Record> calibration = Calibration();
  for (Record& record : calibration) record.world_size = 4;
  const std::string four = Written("four", calibration);
  EXPECT_THAT(AnswerOf({.world_size = 4}, {"flat"}, {four}), Not(HasSubstr("ring")));
  EXPECT_THAT(
      [&] {
        AnswerOf({.world_size = 2}, {}, {four, Written("two", Calibration())});
      },
      ThrowsMessage<InvalidInput>(HasSubstr("--calibration: records of 4 and of 2 ranks")));
  EXPECT_THAT(
      [&] {
        AnswerOf({.world_size = 2, .wire = Wire{1e6, 1e-9}}, {}, {Written("plans", Plans())});
      },
      ThrowsMessage<InvalidInput>(HasSubstr("--calibration: no records of //bench:calibrate over")));
}

TEST(StrategiesAnswerTest, RanksOfTheRecordedHostShareItsProcessors) {
  const std::string calibration = Written("calibration", Calibration());
  const auto answer = [&](const Place& place) { return AnswerOf(place, {"flat"}, {calibration}); };
  // 16 ranks on 8 processors: twice 100 ms, and 15 hops of an eighth of the bytes.
  const std::string text = answer({.world_size = 16, .ranks_per_host = 16});
  EXPECT_THAT(text, HasSubstr("without synchronisation 200 ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo +216.9 "));
  EXPECT_THAT(text, HasSubstr("No verdict: oversubscribed. 16 ranks share 8 processors, and compute at 1 / 2 "
                              "of the pace."));
  EXPECT_THAT(text, Not(HasSubstr("Fastest")));
  // As many ranks as processors; no more ranks than there are; hosts that nobody has.
  const MeasuredLink link{LinkCosts({{.bytes = 3000, .seconds = 9e-3}}), 16};
  for (const Place& place : {Place{.world_size = 16, .ranks_per_host = 8},
                             {.world_size = 8, .ranks_per_host = 16},
                             {.world_size = 16, .ranks_per_host = 16, .wire = Wire{1e6, 1e-9}},
                             {.world_size = 16, .ranks_per_host = 16, .link = link}}) {
    EXPECT_THAT(answer(place), HasSubstr("without synchronisation 100 ms"));
    EXPECT_THAT(answer(place), HasSubstr("Fastest: flat@gloo."));
  }
  // 16 ranks that were recorded there computed at that pace.
  std::vector<Record> crowded(16, Plans()[0]);
  for (size_t r = 0; r < crowded.size(); ++r) {
    crowded[r].rank = static_cast<int64_t>(r);
    crowded[r].world_size = 16;
  }
  crowded.push_back(Plans()[1]);
  std::ostringstream recorded;
  PrintStrategiesAnswer({.records = {Written("crowded", crowded)},
                         .calibrations = {calibration},
                         .place = {.world_size = 16, .ranks_per_host = 16}},
                        recorded);
  EXPECT_THAT(recorded.str(), HasSubstr("without synchronisation 100 ms"));
  std::vector<Record> on_gpu = Plans();
  for (Record& record : on_gpu) record.config.Set("device", "cuda");
  std::ostringstream out;
  PrintStrategiesAnswer({.records = {Written("gpu", on_gpu)},
                         .calibrations = {calibration},
                         .place = {.world_size = 16, .ranks_per_host = 16}},
                        out);
  EXPECT_THAT(out.str(), HasSubstr("without synchronisation 100 ms"));
}

TEST(StrategiesAnswerTest, TakesALinkThatOthersMeasured) {
  // 9 ms between 4 ranks; nothing is known of processors.
  const MeasuredLink link{LinkCosts({{.bytes = 3000, .seconds = 9e-3}}), 4, false};
  const std::string text = AnswerOf({.world_size = 4, .link = link}, {"flat"});
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo +109 "));
  EXPECT_THAT(text, HasSubstr("Assumed: communication uses"));
  EXPECT_THAT(text, Not(HasSubstr("ring")));
  EXPECT_THAT(AnswerOf({.world_size = 8, .link = link}, {"flat"}), HasSubstr("go around a ring"));
  MeasuredLink known = link;
  known.has_processor = true;
  EXPECT_THAT(AnswerOf({.world_size = 4, .link = known}, {"flat"}), Not(HasSubstr("Assumed")));
}

TEST(StrategiesAnswerTest, RefusesWhatItCannotPredict) {
  const Place place{.world_size = 2, .wire = Wire{1e6, 1e-9}};
  EXPECT_NO_THROW(AnswerOf(place, {"flat@gloo", "overlap"}));
  EXPECT_THAT(
      [&] {
        AnswerOf(place, {"flat", "zero3"});
      },
      ThrowsMessage<InvalidInput>(HasSubstr("--variants: zero3 cannot be predicted")));
}

TEST(StrategiesAnswerTest, SharedMemoryIsNoLinkBetweenHosts) {
  std::vector<Record> plans = Plans();
  plans.push_back(plans[1]);
  plans.back().variant.backend = "shm";
  for (size_t i = 1; i < 3; ++i)
    for (bench::BucketRecord& bucket : plans[i].buckets) bucket.bytes *= 1000;
  std::ostringstream out;
  PrintStrategiesAnswer(
      {.records = {Written("shared", plans)}, .place = {.world_size = 2, .wire = Wire{1e6, 1e-9}}}, out);
  EXPECT_THAT(out.str(), HasSubstr("flat@gloo"));
  EXPECT_THAT(out.str(), Not(HasSubstr("flat@shm")));
  // Nor in the map, all of whose places are between hosts.
  std::vector<Record> calibration = Calibration();
  for (Record record : Calibration()) {
    record.variant.backend = "shm";
    record.samples["time_ns"] = Repeat(1, 3);
    calibration.push_back(record);
  }
  const std::string figure = FreshTestDir("map") + "/map.svg";
  const auto print = [&](const std::vector<std::string>& variants) {
    out.str("");
    PrintStrategiesAnswer({.records = {Written("shared", plans)},
                           .calibrations = {Written("calibration", calibration)},
                           .variants = variants,
                           .place = {.world_size = 2},
                           .figure = figure},
                          out);
  };
  print({});
  EXPECT_THAT(out.str(), HasSubstr("flat@shm"));
  EXPECT_THAT(ReadTestFile(figure), HasSubstr("overlap@gloo"));
  EXPECT_THAT(ReadTestFile(figure), Not(HasSubstr("flat@shm")));
  EXPECT_THAT(
      [&] { print({"flat@shm"}); },
      ThrowsMessage<InvalidInput>(HasSubstr("--out: no variant that can be predicted between hosts")));
}

TEST(StrategiesAnswerTest, TheMapTellsByRanksAndByTokens) {
  const std::string path = FreshTestDir("map") + "/map.svg";
  std::ostringstream out;
  PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                         .place = {.world_size = 2, .wire = Wire{1e9, 15e-3}, .processor = 0.0},
                         .figure = path},
                        out);
  const std::string map = ReadTestFile(path);
  // Any collective takes 30 ms between two ranks, of which `overlap` hides 20, and hundreds between hundreds.
  EXPECT_THAT(map, ::testing::ContainsRegex("[0-9][0-9][0-9] ranks: flat@gloo"));
  EXPECT_THAT(map, Not(::testing::ContainsRegex(" 2[.][0-9]* ranks: flat@gloo")));
  // With more tokens it hides all of its first one and exposes its last one, as `flat` does.
  EXPECT_THAT(map, Not(::testing::ContainsRegex("tokens of a rank in a step: overlap@gloo")));
  EXPECT_THAT(map, ::testing::ContainsRegex("tokens of a rank in a step: undecided"));
}

// Steps of both variants over a link of 8 Mbit/s.
std::vector<Record> Measured(int64_t flat_ms, int64_t overlap_ms) {
  std::vector<Record> records;
  for (const int64_t rank : {0, 1}) {
    for (const auto& [variant, ms] :
         {std::pair("flat@gloo", flat_ms), std::pair("overlap@gloo", overlap_ms)}) {
      // Rank 0 takes longer.
      Record& record = records.emplace_back(DdpRecord(variant, rank, Repeat((ms - rank) * kMs, kSteps)));
      record.config.Set("link_rate", 8'000'000);
    }
  }
  return records;
}

TEST(StrategiesAnswerTest, ComparesWithWhatWasMeasuredOverTheSameLink) {
  const auto answer = [](const std::vector<Record>& measured, double rate) {
    std::ostringstream out;
    PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                           .place = {.world_size = 2, .wire = Wire{rate, 1e-9}, .processor = 0.0},
                           .measured = {Written("measured", measured)}},
                          out);
    return out.str();
  };
  EXPECT_THAT(answer(Measured(100, 202), 1e6), ::testing::ContainsRegex("flat@gloo .*  100 +\\+3.0\n"));
  EXPECT_THAT(answer(Measured(100, 202), 1e6), ::testing::ContainsRegex("overlap@gloo .*  202 +-50.0\n"));
  EXPECT_THAT(answer(Measured(100, 202), 2e6), Not(HasSubstr("error")));
  std::vector<Record> others = Measured(100, 202);
  for (Record& record : others) record.world_size = 4;
  EXPECT_THAT(answer(others, 1e6), Not(HasSubstr("error")));
  for (const auto& change : {+[](Record& record) { record.config.Set("batch_size", 64); },
                             +[](Record& record) { record.config.Set("seq_len", 7); },
                             +[](Record& record) { record.config.Set("model", "large"); }}) {
    others = Measured(100, 202);
    std::ranges::for_each(others, change);
    EXPECT_THAT([&] { answer(others, 1e6); },
                ThrowsMessage<InvalidInput>(HasSubstr("--measured: no steps of small with the batch")));
  }
}

TEST(StrategiesAnswerTest, WhatWasMeasuredIsTheMeanOfLaunchesOfTheSlowestRank) {
  std::vector<Record> measured = Measured(100, 202);
  for (Record record : Measured(120, 202)) {
    record.run_id += "2";
    measured.push_back(record);
  }
  std::ostringstream out;
  PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                         .place = {.world_size = 2, .wire = Wire{1e6, 1e-9}, .processor = 0.0},
                         .measured = {Written("measured", measured)}},
                        out);
  EXPECT_THAT(out.str(), ::testing::ContainsRegex("flat@gloo .*  110 +-6.4\n"));
}

TEST(StrategiesAnswerTest, ComparesWithWhatWasMeasuredWhereStepsWereRecorded) {
  std::vector<Record> records = Measured(100, 202);
  for (const int64_t rank : {0, 1}) records.push_back(DdpRecord("none", rank, Repeat(80 * kMs, kSteps)));
  for (Record& record : records) record.config.Set("link_rate", 0);
  const std::string figure = FreshTestDir("map") + "/map.svg";
  const auto answer = [&](const Place& place) {
    std::ostringstream out;
    PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                           .calibrations = {Written("calibration", Calibration())},
                           .place = place,
                           .figure = figure,
                           .measured = {Written("measured", records)}},
                          out);
    return out.str();
  };
  const std::string text = answer({.world_size = 2});
  EXPECT_THAT(text, ::testing::ContainsRegex("flat@gloo .*  100 +\\+9.0\n"));
  EXPECT_THAT(text, HasSubstr("without synchronisation 100 ms (measured 80, +25.0 %), computed"));
  // Loopback is no rate of a link.
  EXPECT_THAT(ReadTestFile(figure), Not(HasSubstr("measured: ")));
  const MeasuredLink link{LinkCosts({{.bytes = 3000, .seconds = 9e-3}}), 2};
  for (const Place& place :
       {Place{.world_size = 4}, {.world_size = 2, .wire = Wire{1e6, 1e-9}}, {.world_size = 2, .link = link}})
    EXPECT_THAT(answer(place), Not(HasSubstr("measured")));
}

TEST(StrategiesAnswerTest, MarksMeasuredWinnersInTheMap) {
  const auto map_of = [](const std::vector<Record>& measured) {
    const std::string path = FreshTestDir("map") + "/map.svg";
    std::ostringstream out;
    PrintStrategiesAnswer({.records = {Written("plans", Plans())},
                           .place = {.world_size = 2, .wire = Wire{1e6, 1e-9}, .processor = 0.0},
                           .figure = path,
                           .measured = {Written("measured", measured)}},
                          out);
    return ReadTestFile(path);
  };
  EXPECT_THAT(map_of(Measured(100, 202)), HasSubstr("0.008 Gbit/s, measured: flat@gloo"));
  EXPECT_THAT(map_of(Measured(202, 100)), HasSubstr("measured: overlap@gloo"));
  EXPECT_THAT(map_of(Measured(200, 201)), HasSubstr("measured: undecided"));
}

TEST(StrategiesAnswerTest, ThousandsOfRanksTakeSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(AnswerOf({.world_size = 16384, .ranks_per_host = 8, .wire = Wire{12.5e9, 5e-6}}),
              HasSubstr("16384 ranks (8 on a host), 100 Gbit/s and 5 us between hosts"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(StrategiesAnswerTest, AnswersForTheModelThatIsAskedFor) {
  std::vector<Record> records = Plans();
  records.insert(records.begin(), AllReduceRecord(3000, 0, {1}));  // has no floor
  for (Record record : Plans()) {
    record.config.Set("model", "other");
    if (record.variant.strategy == "flat") record.buckets[0].bytes = 5000;
    records.push_back(record);
  }
  const auto answer = [&](const std::string& model) {
    std::ostringstream out;
    PrintStrategiesAnswer({.records = {Written("models", records)},
                           .model = model,
                           .place = {.world_size = 2, .wire = Wire{1e6, 1e-9}, .processor = 0.0}},
                          out);
    return out.str();
  };
  EXPECT_THAT(answer(""), ::testing::ContainsRegex("flat@gloo +103 "));
  EXPECT_THAT(answer("other"), ::testing::ContainsRegex("flat@gloo +105 "));
  EXPECT_THROW(answer("large"), InvalidInput);
}

TEST(StrategiesAnswerTest, SaysWhatIsMissing) {
  EXPECT_THROW(AnswerOf({.world_size = 2}), InvalidInput);  // no link
  EXPECT_THROW(AnswerOf({.world_size = 2, .wire = Wire{1e6, 1e-9}}, {"zero1"}),
               InvalidInput);  // no such variant
  std::vector<Record> plans = Plans();
  plans.erase(plans.begin());
  std::ostringstream out;
  EXPECT_THROW(
      PrintStrategiesAnswer({.records = {Written("plans", plans)}, .place = {.wire = Wire{1e6, 1e-9}}}, out),
      InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
