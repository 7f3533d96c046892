#include "tools/reports/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// Writes the events, in the form of bench/timing/trace_log.cc.
std::string WriteTrace(const std::string& name, const std::string& events, const std::string& more = "") {
  std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << "{\"traceEvents\": [" << events << "]" << more << "}";
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
  EXPECT_EQ(ChooseSteps(trace, 2, 8), (std::vector<StepKey>{{2, 8, "naive", 1}, {2, 8, "core", 0}}));
  EXPECT_TRUE(ChooseSteps(trace, 3, 8).empty());
}

int Count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST_F(TimelineTest, ShowsWhatIsHiddenAndWhatIsExposed) {
  const Trace trace = ReadTraces(paths_);
  const std::string svg = PictureOf(TimelineFigure(trace, 2, 8));
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // Each of the four (strategy, rank) rows has one transfer that begins during backward and ends after it;
  // one more box of each class is in the legend.
  EXPECT_EQ(Count(svg, "class='hidden'"), 5);
  EXPECT_EQ(Count(svg, "class='exposed'"), 5);
  EXPECT_EQ(Count(svg, "#0 all_reduce, 1.00 MiB: queued 0.0200 ms"), 8);
  EXPECT_EQ(Count(svg, ">rank 1<"), 2);
  EXPECT_EQ(Count(svg, "1 collective, 1.00 MiB"), 2);
  // core: 150 us hidden and 5 us exposed on both ranks.
  EXPECT_EQ(Count(svg, ">step 0.355 ms, exposed 0.00500 ms, hidden 97 %<"), 1);
  EXPECT_EQ(Count(svg, "batch 2, sequence 8"), 2);
  EXPECT_EQ(
      TimelineFigure(trace, 2, 8).title,
      "batch 2, sequence 8: a step hides 83 % (naive) to 97 % (core) of its time in flight behind backward");
}

TEST_F(TimelineTest, TheBenchmarkSaysTheOrderOfStrategies) {
  const std::string step = Step(0, 1000, 10, "overlap", 0) + "," + Step(0, 2000, 10, "naive", 0);
  const Trace trace = ReadTraces(
      {WriteTrace("ordered.rank0.trace.json", step,
                  R"(,"otherData":{"origin":"tiny, 2 ranks","strategies":["flat","naive","overlap"]})")});
  EXPECT_EQ(trace.strategies, (std::vector<std::string>{"naive", "overlap"}));
  EXPECT_EQ(trace.origin, "tiny, 2 ranks");
  EXPECT_THAT(TimelineFigure(trace, 2, 8).title, testing::StartsWith("tiny, 2 ranks, batch 2, sequence 8: "));
}

TEST(TransferTimesTest, CollectivesAtTheSameTimeCountOnce) {
  RankStep step;
  step.step = {"overlap", 0, 100};
  step.phases = {{"forward", 0, 10}, {"backward", 10, 60}, {"sync_exposed", 60, 90}};
  const auto transfer = [](double issued_us, double begin_us, double end_us) {
    return TracedCollective{.in_flight = {"all_reduce", begin_us, end_us}, .issued_us = issued_us};
  };
  step.transfers = {transfer(15, 20, 40), transfer(15, 30, 70), transfer(55, 65, 85)};
  EXPECT_EQ(step.backward_end_us(), 60);
  EXPECT_EQ(step.transfers[1].queued_us(), 15);
  EXPECT_EQ(step.transfers[1].in_flight.duration_us(), 40);
  EXPECT_EQ(step.transfers[0].ExposedUs(60), 0);
  EXPECT_EQ(step.transfers[1].ExposedUs(60), 10);
  EXPECT_EQ(step.transfers[2].ExposedUs(60), 20);
  const BusyTime time = step.Communication();
  EXPECT_EQ(time.busy_us, 65);
  EXPECT_EQ(time.exposed_us, 25);
}

TEST_F(TimelineTest, ForeignFilesAreNamed) {
  EXPECT_THROW(ReadTraces({"/nowhere/at.all"}), InvalidInput);
  EXPECT_THROW(ReadTraces({"/dev/zero"}), InvalidInput);
  const std::string path = testing::TempDir() + "/foreign.json";
  std::ofstream(path) << "{\"traceEvents\": [{\"ph\": \"X\"}]}";
  EXPECT_THROW(ReadTraces({path}), InvalidInput);
  std::ofstream(path) << "not json";
  EXPECT_THROW(ReadTraces({path}), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
