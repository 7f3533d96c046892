// Which waits of a traced step are known, and which of them count.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/timing/op_recorder.h"
#include "bench/timing/step_wait.h"
#include "bench/training/trainer_test.h"
#include "ddp/buckets/bucket.h"

namespace gradsync::bench {
namespace {

// Returns the sum of the counted waits in a time, and the whole time from the end of backward until gradients
// are averaged, which counts as a wait.
int64_t CountedNs(const StepResult& result, Mark from, Mark to) {
  const StepMarks& marks = result.marks.front();
  const auto without = [&](Mark begin, Mark end) {
    return end < begin ? 0
                       : marks.Between(begin, end) - WithoutWaitsNs(marks[begin], marks[end], result.waits);
  };
  const bool has_sync = from <= Mark::kBackwardEnd && to >= Mark::kSyncEnd;
  return without(from, std::min(to, Mark::kBackwardEnd)) + without(std::max(from, Mark::kSyncEnd), to) +
         (has_sync ? marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd) : 0);
}

// Strategies that wait after backward only, in the update, and for weights in forward; and the broadcast of
// buffers, which waits in forward and is a part of it.
TEST(TrainerWaitsTest, TheWaitsOfATracedStepAreItsTimes) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    const struct {
      const char *name, *option;
      double value;
      int64_t lead_in_steps;
    } strategies[] = {{"core", "views", 1, 0},
                      {"core_update", "views", 1, 0},
                      {"zero1", "gather", 0, 0},
                      {"zero1", "gather", 1, 1},
                      {"zero3", "prefetch", 0, 0}};
    for (const auto& [name, option, value, lead_in_steps] : strategies) {
      const auto strategy =
          rank.trainer.NewStrategy(name, {.bucket_bytes = 512, .values = {{option, value}}}, slow);
      const Turn turn{.strategy = *strategy, .group = slow, .lead_in_steps = lead_in_steps};
      OpRecorder recorder;
      const StepResult result = rank.trainer.Step(turn, BatchOf(rank.device, 0), &recorder);
      ASSERT_FALSE(result.waits.empty()) << name;
      int64_t last_ns = result.marks.front()[Mark::kStepBegin];
      for (const StepWait& wait : result.waits) {
        EXPECT_TRUE(wait.is_counted) << name;
        EXPECT_LE(last_ns, wait.begin_ns) << name;
        EXPECT_LE(wait.begin_ns, wait.end_ns) << name;
        last_ns = wait.end_ns;
      }
      EXPECT_LE(last_ns, result.marks.front()[Mark::kStepEnd]) << name;
      EXPECT_EQ(CountedNs(result, Mark::kStepBegin, Mark::kStepEnd), result.times.waits()) << name;
      EXPECT_EQ(CountedNs(result, Mark::kStepBegin, Mark::kForwardEnd), result.times.forward_wait.value_or(0))
          << name;
      EXPECT_EQ(CountedNs(result, Mark::kSyncEnd, Mark::kStepEnd),
                result.marks.front().Between(Mark::kSyncEnd, Mark::kStepEnd) - *result.times.optimizer)
          << name;
      EXPECT_TRUE(rank.trainer.Step(turn, BatchOf(rank.device, 0)).waits.empty()) << "not traced: " << name;
    }
  });
}

// Its work before forward waits.
class WaitingBefore : public ddp::Strategy {
 public:
  explicit WaitingBefore(comm::ProcessGroup& group) : group_(group) {}

  void BeginStep() override { group_.Barrier(); }
  void Finish() override { group_.Barrier(); }
  ddp::BucketPlan plan() const override { return {}; }

 private:
  comm::ProcessGroup& group_;
};

TEST(TrainerWaitsTest, WaitsBeforeForwardAreKnownAndNotCounted) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks(
      [&](Rank& rank) {
        comm::RecordingProcessGroup slow(
            std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
        WaitingBefore strategy(slow);
        OpRecorder recorder;
        const model::Batch batch = ImagesOf(rank.device, rank.group.rank());
        const StepResult result = rank.trainer.Step({strategy, slow}, batch, &recorder);
        // The barrier of BeginStep, the broadcast of buffers, and the barrier of Finish.
        ASSERT_GE(result.waits.size(), 3u);
        const size_t num_before = result.waits.size() - 1;
        for (size_t i = 0; i < result.waits.size(); ++i)
          EXPECT_EQ(result.waits[i].is_counted, i >= num_before) << i;
        EXPECT_EQ(slow.entries()[1].collective, comm::Collective::kBroadcast);
        EXPECT_GE(result.waits[num_before].begin_ns, result.marks.front()[Mark::kBackwardEnd]);
        EXPECT_EQ(result.times.waits(), result.marks.front().Between(Mark::kBackwardEnd, Mark::kSyncEnd));
        EXPECT_GE(result.times.begin_step, 1'500'000);
      },
      MicroResNet);
}

}  // namespace
}  // namespace gradsync::bench
