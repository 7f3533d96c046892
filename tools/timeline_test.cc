#include "tools/timeline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// Writes the events, in the form of bench/trace_log.cc.
std::string WriteTrace(const std::string& name, const std::string& events) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << "{\"traceEvents\": [" << events << "]}";
  return path;
}

std::string Event(int rank, int row, const std::string& name, double ts, double dur,
                  const std::string& strategy, int step, const std::string& more = "") {
  return "{\"ph\":\"" + std::string(row == 3 ? "b" : "X") + "\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(row) + ",\"name\":\"" + name + "\",\"ts\":" + std::to_string(ts) +
         ",\"dur\":" + std::to_string(dur) + ",\"args\":{\"strategy\":\"" + strategy +
         "\",\"step\":" + std::to_string(step) + ",\"batch_size\":2,\"seq_len\":8" + more + "}}";
}

// A step from `at` on: forward 100, backward 200, exposed, optimizer 50; one transfer from 150 after `at`.
std::string Step(int rank, double at, double exposed, const std::string& strategy, int step) {
  const std::string bytes = ",\"sequence\":" + std::to_string(step) + ",\"bytes\":1048576";
  return Event(rank, 1, strategy, at, 350 + exposed, strategy, step) + "," +
         Event(rank, 1, "forward", at, 100, strategy, step) + "," +
         Event(rank, 1, "backward", at + 100, 200, strategy, step) + "," +
         Event(rank, 1, "sync_exposed", at + 300, exposed, strategy, step) + "," +
         Event(rank, 1, "optimizer", at + 300 + exposed, 50, strategy, step) + "," +
         Event(rank, 2, "linear", at + 100, 120, strategy, step) + "," +
         Event(rank, 3, "all_reduce", at + 130, 0, strategy, step, bytes) + "," +
         Event(rank, 4, "all_reduce", at + 150, 150 + exposed, strategy, step, bytes);
}

class TimelineTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < 2; ++rank) {
      paths_.push_back(
          WriteTrace("t.rank" + std::to_string(rank) + ".trace.json",
                     Step(rank, 1000, 10, "naive", 0) + "," + Step(rank, 2000, 30 + rank, "naive", 1) + "," +
                         Step(rank, 3000, 90, "naive", 2) + "," + Step(rank, 4000, 5, "core", 0)));
    }
  }

  std::vector<std::string> paths_;
};

TEST_F(TimelineTest, ReadsWhatTheBenchmarkWrites) {
  const Trace trace = ReadTraces(paths_);
  EXPECT_EQ(trace.strategies, (std::vector<std::string>{"naive", "core"}));
  ASSERT_EQ(trace.steps.size(), 4u);
  const RankStep& step = trace.steps.at({2, 8, "naive", 1}).at(1);
  EXPECT_EQ(step.step.duration_us(), 381);
  ASSERT_EQ(step.phases.size(), 4u);
  EXPECT_EQ(step.Phase("backward")->end_us, 2300);
  EXPECT_EQ(step.ops.at(0).name, "linear");
  EXPECT_EQ(step.transfers.at(0).issued_us, 2130);
  EXPECT_EQ(step.transfers.at(0).in_flight.begin_us, 2150);
  EXPECT_EQ(step.transfers.at(0).bytes, 1 << 20);
}

TEST_F(TimelineTest, ChoosesTheMedianStepOfEachStrategy) {
  const Trace trace = ReadTraces(paths_);
  EXPECT_EQ(ChooseSteps(trace, {}), (std::vector<StepKey>{{2, 8, "naive", 1}, {2, 8, "core", 0}}));
  EXPECT_EQ(ChooseSteps(trace, {.strategies = {"core"}, .batch_size = {}, .seq_len = {}}).size(), 1u);
  EXPECT_THROW(ChooseSteps(trace, {.strategies = {"flat"}, .batch_size = {}, .seq_len = {}}), InvalidInput);
  EXPECT_THROW(ChooseSteps(trace, {.strategies = {}, .batch_size = 3, .seq_len = {}}), InvalidInput);
}

TEST_F(TimelineTest, ShowsWhatIsHiddenAndWhatIsExposed) {
  const Trace trace = ReadTraces(paths_);
  const std::string svg = DrawTimeline(trace, ChooseSteps(trace, {}));
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  // Each of the four (strategy, rank) rows has one transfer that begins during backward and ends after it.
  EXPECT_EQ(count("(hidden)"), 4);
  EXPECT_EQ(count("(exposed)"), 4);
  EXPECT_EQ(count("waited 0.02 ms"), 8);
  EXPECT_EQ(count("rank 1 computes"), 2);
  EXPECT_EQ(count("1 collective, 1.0 MiB"), 2);
}

TEST_F(TimelineTest, ForeignFilesAreNamed) {
  EXPECT_THROW(ReadTraces({"/nowhere/at.all"}), InvalidInput);
  const std::string path = testing::TempDir() + "/foreign.json";
  std::ofstream(path) << "{\"traceEvents\": [{\"ph\": \"X\"}]}";
  EXPECT_THROW(ReadTraces({path}), InvalidInput);
  std::ofstream(path) << "not json";
  EXPECT_THROW(ReadTraces({path}), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
