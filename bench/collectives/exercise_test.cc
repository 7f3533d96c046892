#include "bench/collectives/exercise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/collectives/pattern.h"
#include "comm/testing/local_process_group.h"

namespace gradsync::bench {
namespace {

using comm::Collective;

// Says what is issued, and when the input was last written.
class Logging : public comm::GroupDecorator {
 public:
  Logging(std::unique_ptr<comm::ProcessGroup> inner, std::vector<std::string>& log)
      : GroupDecorator(std::move(inner)), log_(log) {}

  comm::Work Issue(comm::Request request) override {
    log_.emplace_back(comm::Name(request.collective));
    return GroupDecorator::Issue(std::move(request));
  }

 private:
  std::vector<std::string>& log_;
};

class LoggingTimer : public PhaseTimer {
 public:
  explicit LoggingTimer(std::vector<std::string>& log) : log_(log) {}

  void Take(Mark mark) override { log_.emplace_back(mark == Mark::kStepBegin ? "begin" : "end"); }
  StepMarks Read() override {
    StepMarks marks;
    marks.at_ns.back() = 700;
    return marks;
  }

 private:
  std::vector<std::string>& log_;
};

// The time is that from when all ranks have met, whatever each had to prepare, to when the last one is done.
TEST(ExerciseTest, TheTimeBeginsWhenAllRanksHaveMet) {
  std::vector<std::string> log;
  comm::RecordingProcessGroup group(
      std::make_unique<Logging>(std::move(comm::MakeLocalGroups(1).front()), log));
  const model::DevicePtr device = model::CpuDevice();
  const model::Tensor pattern = model::Tensor::Empty(device, {8}, model::DType::kF32);
  FillPattern(pattern, 0);
  const AllReduceOptions options;
  Exercise exercise(group, options, /*is_limit=*/false, device, Collective::kAllReduce, pattern, 8);
  log.clear();
  LoggingTimer timer(log);
  exercise.Prepare();
  EXPECT_EQ(exercise.Measure(timer, 2), 700);
  EXPECT_THAT(log, testing::ElementsAre("barrier", "begin", "all_reduce", "all_reduce", "end"));
  EXPECT_EQ(exercise.CountWrongElements(), 0);
  EXPECT_EQ(exercise.num_checked(), 8);
  EXPECT_TRUE(group.entries().empty());
}

TEST(ExerciseTest, ThoseInFlightHaveMemoryOfTheirOwnAndAreAllChecked) {
  std::vector<std::string> log;
  comm::RecordingProcessGroup group(
      std::make_unique<Logging>(std::move(comm::MakeLocalGroups(1).front()), log));
  const model::Tensor pattern = model::Tensor::Empty(model::CpuDevice(), {8}, model::DType::kF32);
  FillPattern(pattern, 0);
  Exercise exercise(group, AllReduceOptions(), /*is_limit=*/false, model::CpuDevice(), Collective::kAllReduce,
                    pattern, 8, /*in_flight=*/3);
  log.clear();
  LoggingTimer timer(log);
  exercise.Prepare();
  exercise.Measure(timer, 1);
  EXPECT_THAT(log, testing::ElementsAre("barrier", "begin", "all_reduce", "all_reduce", "all_reduce", "end"));
  EXPECT_EQ(exercise.CountWrongElements(), 0);
  EXPECT_EQ(exercise.num_checked(), 24);
}

}  // namespace
}  // namespace gradsync::bench
