#include "bench/timing/trace_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/testing/errors.h"
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
      {"overlap", 7, 2, 128}, marks, {}, {{"matmul", 3500, 6000, -1}, {"softmax \"x\"", 4000, 5000, 0}},
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
  log.AddStep({"flat", 0, 1, 8}, StepMarks{{1500, 2500, 3500, 4500, 5500}}, {}, {},
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

// A wait in BeginStep, in forward, after backward and in the update.
TEST(TraceLogTest, AWaitIsAnEventInItsPhase) {
  TraceLog log(0, "", {});
  const std::vector<StepWait> waits = {
      {8, 1100, 1200, false}, {9, 1600, 1900}, {10, 3500, 4400}, {11, 5000, 5400}};
  log.AddStep({"zero3", 2, 1, 8}, StepMarks{{1000, 2500, 3500, 4500, 5500}}, waits, {}, {});
  std::map<std::string, std::pair<double, double>> phases;
  std::vector<nlohmann::json> events;
  const nlohmann::json trace = WriteAndRead(log);
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("tid"), 1);
    const double begin = event.at("ts"), duration = event.at("dur");
    if (event.at("name") == "wait") {
      events.push_back(event);
    } else {
      phases[event.at("name")] = {begin, begin + duration};
    }
  }
  ASSERT_EQ(events.size(), waits.size());
  const char* const names[] = {"forward", "forward", "sync_exposed", "optimizer"};
  for (size_t i = 0; i < events.size(); ++i) {
    const double begin = events[i].at("ts"), duration = events[i].at("dur");
    EXPECT_DOUBLE_EQ(begin, 1e-3 * static_cast<double>(waits[i].begin_ns));
    EXPECT_NEAR(duration, 1e-3 * static_cast<double>(waits[i].end_ns - waits[i].begin_ns), 1e-9);
    EXPECT_GE(begin, phases.at(names[i]).first);
    EXPECT_LE(begin + duration, phases.at(names[i]).second + 1e-9);
    EXPECT_EQ(events[i].at("args").at("sequence"), 8 + static_cast<int>(i));
    EXPECT_EQ(events[i].at("args").at("counted"), i > 0);
    EXPECT_EQ(events[i].at("args").at("strategy"), "zero3");
    EXPECT_EQ(events[i].at("args").at("step"), 2);
  }
}

TEST(TraceLogTest, SaysWhatWasRun) {
  const nlohmann::json other = WriteAndRead(TraceLog(0, "tiny, 2 ranks", {"naive", "core"})).at("otherData");
  EXPECT_EQ(other.at("origin"), "tiny, 2 ranks");
  EXPECT_EQ(other.at("strategies"), (nlohmann::json{"naive", "core"}));
}

TEST(TraceLogTest, UnwritablePathIsNamed) {
  EXPECT_EQ(comm::ErrorOf<InvalidInput>([] { TraceLog(0, "", {}).Write("/nonexistent/trace.json"); }),
            "/nonexistent/trace.json: cannot be written: No such file or directory");
}

}  // namespace
}  // namespace gradsync::bench
