#include "tools/predict/replay.h"

#include <gtest/gtest.h>

#include "model/error.h"

// Moments are computed by hand in each test.
namespace gradsync::tools {
namespace {

using enum CollectiveKind;
using Kind = Action::Kind;

Action Compute(std::vector<double> seconds) { return {.seconds = std::move(seconds)}; }
Action Issue() { return {.kind = Kind::kIssue}; }
Action Wait(size_t i) { return {.kind = Kind::kWait, .index = i}; }

// A link that takes a second for each byte, and this much of the processor.
LinkCosts ASecondForEachByte(double processor, int channels = 1) {
  return LinkCosts({{kAllReduce, 1, 1, 1, processor}, {kAllReduce, 1, 100, 100, processor}}, channels);
}

TEST(ReplayTest, WithoutCollectivesTheSlowestRankCounts) {
  const Replayed replayed =
      Replay({0, 0}, {Compute({3, 5}), Compute({4, 1})}, {}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.end, 7);
  EXPECT_EQ(replayed.done, (std::vector<double>{5, 7}));
}

TEST(ReplayTest, TimeBeginsWhenTheLastRankBegins) {
  EXPECT_DOUBLE_EQ(Replay({10, 12}, {Compute({3, 5})}, {}, ASecondForEachByte(0), {}).end, 5);
  EXPECT_DOUBLE_EQ(Replay({10, 12}, {Compute({9, 5})}, {}, ASecondForEachByte(0), {}).end, 7);
}

TEST(ReplayTest, ABlockingCollectiveStartsWhenTheLastRankHasIssuedIt) {
  const Replayed replayed = Replay({0, 0}, {Compute({3, 5}), Issue(), Wait(0), Compute({2, 1})},
                                   {{kAllReduce, 10}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.done[1], 5);
  EXPECT_DOUBLE_EQ(replayed.done[2], 15);
  EXPECT_DOUBLE_EQ(replayed.end, 17);
}

TEST(ReplayTest, ComputationAndCommunicationSlowEachOtherDown) {
  // From 2 on, 12 s of computation and 10 s of communication, both 1.5 times as long: the collective ends at
  // 17, when 2 s of computation are left.
  const Replayed replayed = Replay({0, 0}, {Compute({2, 2}), Issue(), Compute({12, 12}), Wait(0)},
                                   {{kAllReduce, 10}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.end, 19);
}

TEST(ReplayTest, CommunicationGoesOnAtFullPaceWhenNoRankComputes) {
  // Both at 1 / 1.5 until 2 + 6 = 8, when 4 s of the collective are done.
  const Replayed replayed = Replay({0, 0}, {Compute({2, 2}), Issue(), Compute({1, 4}), Wait(0)},
                                   {{kAllReduce, 10}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.done[2], 8);
  EXPECT_DOUBLE_EQ(replayed.end, 14);
}

TEST(ReplayTest, WithoutUseOfProcessorsNothingIsSlower) {
  const Replayed replayed = Replay({0, 0}, {Compute({2, 2}), Issue(), Compute({12, 12}), Wait(0)},
                                   {{kAllReduce, 10}}, ASecondForEachByte(0), {});
  EXPECT_DOUBLE_EQ(replayed.end, 14);
}

TEST(ReplayTest, ProcessorsToSpareAreUsedFirst) {
  const auto end = [](RankProcessors processors) {
    return Replay({0, 0}, {Issue(), Compute({12, 12}), Wait(0)}, {{kAllReduce, 100}}, ASecondForEachByte(0.5),
                  processors)
        .done[1];
  };
  EXPECT_DOUBLE_EQ(end({.available = 2, .computing = 1}), 12);
  EXPECT_DOUBLE_EQ(end({.available = 2, .computing = 2}), 15);  // 2.5 / 2 as long
}

TEST(ReplayTest, ThreadsThatShareAProcessorTakeAsManyTimesAsLong) {
  const RankProcessors half{.available = 0.5, .computing = 1};
  const auto end = [&](const std::vector<Action>& actions, double processor) {
    return Replay({0, 0}, actions, {{kAllReduce, 10}}, ASecondForEachByte(processor), half).end;
  };
  EXPECT_DOUBLE_EQ(end({Compute({3, 5}), Compute({4, 1})}, 0), 14);
  // Communication wants 0.8 of the half processor that there is, and 1.8 beside computation: 16 s alone.
  EXPECT_DOUBLE_EQ(end({Issue(), Wait(0)}, 0.8), 16);
  EXPECT_DOUBLE_EQ(end({Issue(), Compute({10, 10}), Wait(0)}, 0.8), 36);
  // Rank 1 begins 4 s of time later, and computes until 10.
  EXPECT_DOUBLE_EQ(Replay({10, 12}, {Compute({3, 5})}, {}, ASecondForEachByte(0), half).end, 10);
  EXPECT_EQ(Replay({10, 12}, {Compute({3, 5})}, {}, ASecondForEachByte(0), half).done,
            (std::vector<double>{10}));
}

TEST(ReplayTest, CollectivesQueueInTheOrderOfIssue) {
  const std::vector<Action> actions = {Issue(), Compute({1, 1}), Issue(), Compute({1, 1}),
                                       Issue(), Wait(0),         Wait(1), Wait(2)};
  const Replayed replayed = Replay({0, 0}, actions, {{kAllReduce, 10}, {kAllReduce, 3}, {kAllReduce, 5}},
                                   ASecondForEachByte(0), {});
  EXPECT_EQ(std::vector(replayed.done.end() - 3, replayed.done.end()), (std::vector<double>{10, 13, 18}));
}

TEST(ReplayTest, TwoInFlightShareTheLinkAndGainTogether) {
  // Two of 10 take 16 together: each at 10 / 16 of its pace.
  const LinkCosts link({{kAllReduce, 1, 10, 10, 0}, {kAllReduce, 2, 10, 16, 0}}, 2);
  EXPECT_DOUBLE_EQ(
      Replay({0, 0}, {Issue(), Issue(), Wait(1)}, {{kAllReduce, 10}, {kAllReduce, 10}}, link, {}).end, 16);
  // The second begins at 5: 5 are left of the first, which take 8; then 5 of the second, alone.
  const Replayed replayed = Replay({0, 0}, {Issue(), Compute({5, 5}), Issue(), Wait(0), Wait(1)},
                                   {{kAllReduce, 10}, {kAllReduce, 10}}, link, {});
  EXPECT_DOUBLE_EQ(replayed.done[3], 13);
  EXPECT_DOUBLE_EQ(replayed.done[4], 18);
}

TEST(ReplayTest, UnequalRanksOverlapOnlyWhatTheLastOneIssued) {
  // Rank 0 issues at 1 and waits; rank 1 issues at 4 and computes 2 more, beside the collective: 3 s of time.
  const Replayed replayed = Replay({0, 0}, {Compute({1, 4}), Issue(), Compute({0, 2}), Wait(0)},
                                   {{kAllReduce, 8}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.done[1], 4);
  EXPECT_DOUBLE_EQ(replayed.done[2], 7);
  EXPECT_DOUBLE_EQ(replayed.end, 13);  // 2 of 8 are done by then
}

TEST(ReplayTest, ARankThatComesLateDoesNotWait) {
  // The collective ends at 3; rank 1 computes until 5, slowed down until then: 2 + (5 - 2 / 1.5).
  const Replayed replayed = Replay({0, 0}, {Issue(), Compute({0, 5}), Wait(0), Compute({4, 1})},
                                   {{kAllReduce, 2}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.end, 3 + 4);  // rank 0; rank 1 ends at 3 + (5 - 2) + 1, the same
  const Replayed later = Replay({0, 0}, {Issue(), Compute({0, 6}), Wait(0), Compute({4, 1})},
                                {{kAllReduce, 2}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(later.end, 3 + 4 + 1);
}

TEST(ReplayTest, UpdatesBesideWhatStillTravels) {
  // Two collectives until 4 and 8. The update of the first takes 2, beside the second: 3 s of time.
  const Replayed replayed =
      Replay({0, 0}, {Issue(), Issue(), Wait(0), Compute({2, 2}), Wait(1), Compute({1, 1})},
             {{kAllReduce, 4}, {kAllReduce, 4}}, ASecondForEachByte(0.5), {});
  EXPECT_DOUBLE_EQ(replayed.done[3], 7);
  EXPECT_DOUBLE_EQ(replayed.done[4], 9);  // 2 of 4 done at 7
  EXPECT_DOUBLE_EQ(replayed.end, 10);
}

TEST(ReplayTest, RefusesAWaitForWhatWasNotIssued) {
  EXPECT_THROW(Replay({0, 0}, {Wait(0)}, {{kAllReduce, 4}}, ASecondForEachByte(0), {}), InvalidInput);
}

}  // namespace
}  // namespace gradsync::tools
