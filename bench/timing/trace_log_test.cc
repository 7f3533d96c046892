#include "bench/timing/trace_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using Entry = comm::RecordingProcessGroup::Entry;

Entry AllReduce(int64_t sequence, int64_t bytes, int64_t issue_ns, int64_t start_ns, int64_t end_ns) {
  Entry entry;
  entry.sequence = sequence;
  entry.collective = comm::Collective::kAllReduce;
  entry.bytes = bytes;
  entry.issue_ns = issue_ns;
  entry.interval = {start_ns, end_ns};
  return entry;
}

TEST(AssignLanesTest, OverlappingIntervalsGetDifferentLanes) {
  const std::vector<comm::Interval> intervals = {{0, 10}, {5, 20}, {10, 30}, {12, 15}, {20, 25}};
  EXPECT_THAT(AssignLanes(intervals), ElementsAre(0, 1, 0, 2, 1));
}

TEST(AssignLanesTest, OrderOfTheIntervalsDoesNotMatter) {
  const std::vector<comm::Interval> intervals = {{10, 30}, {0, 10}, {5, 20}};
  EXPECT_THAT(AssignLanes(intervals), ElementsAre(0, 0, 1));
}

nlohmann::json WriteAndRead(const TraceLog& log) {
  const std::string path = ::testing::TempDir() + "/trace.json";
  log.Write(path);
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

TEST(TraceLogTest, IsValidAndComplete) {
  TraceLog log(3, "", {});
  const StepMarks marks{{1000, 3000, 9000, 12000, 15000}};
  log.AddStep(
      {"overlap", 7, 2, 128}, marks, {{"matmul", 3500, 6000, -1}, {"softmax \"x\"", 4000, 5000, 0}},
      std::vector<Entry>{AllReduce(40, 4096, 6000, 6500, 9500), AllReduce(41, 8192, 7000, 7000, 11000)});
  const nlohmann::json trace = WriteAndRead(log);

  std::map<std::string, int> count;
  std::map<int, std::string> rows;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 3);
    const std::string kind = event.at("ph");
    ++count[kind];
    if (event.at("name") == "thread_name") rows[event.at("tid")] = event.at("args").at("name");
    if (kind == "X") {
      EXPECT_EQ(event.at("args").at("strategy"), "overlap");
      EXPECT_EQ(event.at("args").at("step"), 7);
      EXPECT_EQ(event.at("args").at("seq_len"), 128);
    }
  }
  // The step and its four phases, two operations, two collectives in flight; and a wait for each collective.
  EXPECT_EQ(count["X"], 9);
  EXPECT_EQ(count["b"], 2);
  EXPECT_EQ(count["e"], 2);
  EXPECT_EQ(rows[1], "phases");
  EXPECT_EQ(rows[2], "backward");
  EXPECT_EQ(rows[3], "communication, queued");
  EXPECT_EQ(rows[4], "communication, in flight 0");
  EXPECT_EQ(rows[5], "communication, in flight 1");
}

TEST(TraceLogTest, TimesAreMicroseconds) {
  TraceLog log(0, "", {});
  log.AddStep({"flat", 0, 1, 8}, StepMarks{{1500, 2500, 3500, 4500, 5500}}, {},
              std::vector<Entry>{AllReduce(0, 4096, 3600, 3700, 4200)});
  const nlohmann::json trace = WriteAndRead(log);
  int seen = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") == "forward") {
      ++seen;
      EXPECT_EQ(event.at("ts"), 1.5);
      EXPECT_EQ(event.at("dur"), 1.0);
    }
    if (event.at("name") == "all_reduce" && event.at("ph") == "X") {
      ++seen;
      EXPECT_EQ(event.at("ts"), 3.7);
      EXPECT_EQ(event.at("dur"), 0.5);
      EXPECT_EQ(event.at("args").at("bytes"), 4096);
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(TraceLogTest, SaysWhatWasRun) {
  const nlohmann::json other = WriteAndRead(TraceLog(0, "tiny, 2 ranks", {"naive", "core"})).at("otherData");
  EXPECT_EQ(other.at("origin"), "tiny, 2 ranks");
  EXPECT_EQ(other.at("strategies"), (nlohmann::json{"naive", "core"}));
}

TEST(TraceLogTest, UnwritablePathIsNamed) {
  try {
    TraceLog(0, "", {}).Write("/nonexistent/trace.json");
    FAIL() << "written";
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(error.what(), "/nonexistent/trace.json: cannot be written: No such file or directory");
  }
}

}  // namespace
}  // namespace gradsync::bench
