// What a step is timed as, logs, counts and allocates.
#include <gtest/gtest.h>

#include <limits>

#include "bench/timing/range_sink.h"
#include "bench/training/trainer_test.h"
#include "ddp/buckets/bucket.h"

namespace gradsync::bench {
namespace {

using model::Batch;

// Writes down the phases, and how many operations were in each.
class PhaseSink : public RangeSink {
 public:
  void Push(RangeKind kind, std::string_view name) override {
    if (kind == RangeKind::kPhase) phases.emplace_back(name, 0);
    if (kind == RangeKind::kOp && !phases.empty()) ++phases.back().second;
    ++depth;
  }
  void Pop() override { --depth; }
  uint64_t Start(RangeKind, std::string_view) override { return 0; }
  void Stop(uint64_t) override {}

  std::vector<std::pair<std::string, int>> phases;
  int depth = 0;
};

TEST(TrainerPhasesTest, PhasesAndOperationsAreRangesOfTheSink) {
  auto groups = comm::MakeGroups("local", 2);
  comm::RunRanks(2, [&](int number) {
    PhaseSink sink;
    Rank rank(std::move(groups[static_cast<size_t>(number)]), MicroTransformer, {.ranges = &sink});
    const auto strategy = rank.Make("naive");
    rank.trainer.Step({*strategy, rank.group}, BatchOf(rank.device, 0), &sink);
    ASSERT_EQ(sink.phases.size(), 4u);
    const char* const names[] = {"forward", "backward", "synchronisation", "optimizer"};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(sink.phases[i].first, names[i]);
      EXPECT_EQ(sink.phases[i].second > 0, sink.phases[i].first == "backward");
    }
    EXPECT_EQ(sink.depth, 0);
    EXPECT_EQ(rank.device->tracer(), nullptr);
    EXPECT_EQ(rank.trainer.phase(), "end");
  });
}

TEST(TrainerPhasesTest, AStepLogsItsOwnCollectivesAndPhases) {
  OnTwoRanks([](Rank& rank) {
    const auto naive = rank.Make("naive");
    const auto none = rank.Make("none");
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    const StepResult result = rank.Step(*naive, batch);
    EXPECT_EQ(rank.group.entries().size(), rank.trainer.params().size());
    EXPECT_GT(result.comm_busy_ns, 0);
    EXPECT_LE(result.comm_busy_ns, result.times.step());
    ASSERT_EQ(result.marks.size(), 1u);
    const StepMarks& marks = result.marks.front();
    for (size_t i = 0; i + 1 < kNumMarks; ++i) EXPECT_LE(marks.at_ns[i], marks.at_ns[i + 1]);
    EXPECT_EQ(result.times.step(), marks.step_ns());

    EXPECT_EQ(rank.Step(*none, batch).comm_busy_ns, 0);
    EXPECT_TRUE(rank.group.entries().empty());
  });
}

// Its update computes for a while, and waits.
class Waiting : public ddp::Strategy {
 public:
  explicit Waiting(comm::ProcessGroup& group) : group_(group) {}

  void Finish() override {}
  void Update(model::Optimizer&, double) override {
    const int64_t begin_ns = comm::Now();
    while (comm::Now() < begin_ns + 500'000) {
    }
    group_.Barrier();
  }
  ddp::BucketPlan plan() const override { return {}; }

 private:
  comm::ProcessGroup& group_;
};

// Communication that is left for the update is exposed like any other, and no part of the optimizer's time.
TEST(TrainerPhasesTest, WhatAnUpdateWaitsIsExposed) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    Waiting strategy(slow);
    slow.Barrier();  // before the step
    const StepResult result = rank.trainer.Step({strategy, slow}, BatchOf(rank.device, 0));
    EXPECT_GE(result.times.sync_wait, 1'500'000);
    EXPECT_GE(result.times.optimizer, 500'000);
    EXPECT_LE(result.times.optimizer,
              result.marks.front().Between(Mark::kSyncEnd, Mark::kStepEnd) - 1'500'000);
    EXPECT_EQ(result.times.step(), result.marks.front().step_ns());
    // A period has the means of its steps.
    const StepResult three =
        rank.trainer.Step({.strategy = strategy, .group = slow, .num_steps = 3}, BatchOf(rank.device, 0));
    EXPECT_GE(three.times.sync_wait, 1'500'000);
    EXPECT_GE(three.times.optimizer, 500'000);
    EXPECT_EQ(three.marks.size(), 3u);
  });
}

// Forward and backward wait for the weights of each of four units, and backward also for reductions.
TEST(TrainerPhasesTest, WhatForwardAndBackwardWaitIsKnown) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    ddp::StrategyOptions options;
    options.values = {{"prefetch", 0}};
    const auto strategy = rank.trainer.NewStrategy("zero3", options, slow);
    const StepResult result = rank.trainer.Step({*strategy, slow}, BatchOf(rank.device, 0));
    const int64_t of_units_ns = 4 * 1'500'000;
    EXPECT_GE(result.times.forward_wait, of_units_ns);
    EXPECT_GE(result.times.forward, 0);
    EXPECT_GE(result.times.backward_wait, of_units_ns);
    EXPECT_GE(result.times.sync_wait, 1'500'000);
    EXPECT_GE(result.times.backward, 0);
    EXPECT_GE(result.times.hooks, 0);
    EXPECT_EQ(result.times.step(), result.marks.front().step_ns());
    // Others gather nothing that they read.
    const auto zero2 = rank.trainer.NewStrategy("zero2", {}, slow);
    EXPECT_FALSE(rank.trainer.Step({*zero2, slow}, BatchOf(rank.device, 0)).times.backward_wait.has_value());
  });
}

// Of two passes the first one's count as forward: its gathers for weights, like forward's own, and its
// reductions, which are none.
TEST(TrainerPhasesTest, WhatEarlierPassesWaitIsKnown) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    const auto result_of = [&](const char* name, const char* option, double value) {
      const auto strategy = rank.trainer.NewStrategy(name, {.values = {{option, value}}}, slow);
      return rank.trainer.Step({.strategy = *strategy, .group = slow, .accumulation_steps = 2},
                               BatchOf(rank.device, 0));
    };
    const StepResult zero3 = result_of("zero3", "prefetch", 0);
    EXPECT_GE(zero3.times.forward_wait, 3 * 4 * 1'500'000);
    EXPECT_GE(zero3.times.sync_wait, 2 * 1'500'000);
    const StepResult zero2 = result_of("zero2", "accumulate_parts", 1);
    EXPECT_EQ(zero2.times.forward_wait, 0);
    EXPECT_EQ(zero2.times.backward_wait, 0);
    EXPECT_GE(zero2.times.sync_wait, 2 * 1'500'000);
    EXPECT_EQ(zero2.times.step(), zero2.marks.front().step_ns());
  });
}

// The step's bytes and waits are those of all passes, and so is the time in which something is in flight.
TEST(TrainerPhasesTest, EveryPassThatCommunicatesIsBusy) {
  OnTwoRanks([](Rank& rank) {
    for (const char* const name : {"zero2", "zero3"}) {
      ddp::StrategyOptions options{.bucket_bytes = 512};
      if (!ddp::TraitsOf(name).shards_values) options.values = {{"accumulate_parts", 1}};
      const auto strategy = rank.trainer.NewStrategy(name, options, rank.group);
      const StepResult result =
          rank.trainer.Step({.strategy = *strategy, .group = rank.group, .accumulation_steps = 2},
                            BatchOf(rank.device, rank.group.rank()));
      const auto all = comm::Intervals(rank.group.entries());
      EXPECT_EQ(result.comm_busy_ns, comm::BusyNs(all, 0, std::numeric_limits<int64_t>::max())) << name;
    }
  });
}

// The steps that count wait in forward for what the step before them has left.
TEST(TrainerPhasesTest, ALeadInIsTakenAndNotTimed) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    ddp::StrategyOptions options;
    options.values = {{"gather", 1}};
    const auto strategy = rank.trainer.NewStrategy("zero1", options, slow);
    const StepResult result = rank.trainer.Step(
        {.strategy = *strategy, .group = slow, .num_steps = 2, .lead_in_steps = 1}, BatchOf(rank.device, 0));
    EXPECT_EQ(rank.trainer.optimizer().num_steps(), 3);
    EXPECT_GE(result.times.forward_wait, 1'500'000);
    EXPECT_GE(result.times.forward, 0);
    EXPECT_EQ(result.times.backward_wait, 0);
    EXPECT_EQ(result.marks.size(), 2u);
    EXPECT_GT(result.built_bytes, 0);
  });
}

// None begins with gradients of the one before.
TEST(TrainerPhasesTest, StepsOfATurnAreThoseOfSeparateTurns) {
  OnTwoRanks([](Rank& rank) {
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    const auto naive = rank.Make("naive");
    for (int step = 0; step < 3; ++step) rank.Step(*naive, batch);
    const std::vector<std::vector<double>> grads = rank.Grads();
    rank.trainer.Restart();
    rank.trainer.Step({.strategy = *naive, .group = rank.group, .num_steps = 2, .lead_in_steps = 1}, batch);
    EXPECT_EQ(rank.Grads(), grads);
  });
}

// The k-th step takes k, 2k, 3k and 4k microseconds in its four phases.
class ScriptedTimer : public PhaseTimer {
 public:
  void Take(Mark) override {}
  StepMarks Read() override {
    ++step_;
    return {{0, 1000 * step_, 3000 * step_, 6000 * step_, 10000 * step_}};
  }

 private:
  int64_t step_ = 0;
};

TEST(TrainerPhasesTest, APeriodsTimesAreMeansOfAllItsSteps) {
  OnTwoRanks([](Rank& rank) {
    const auto none = rank.Make("none");
    rank.trainer.SetClock(std::make_unique<ScriptedTimer>(), [] { return int64_t{0}; });
    const StepResult result =
        rank.trainer.Step({.strategy = *none, .group = rank.group, .num_steps = 4}, BatchOf(rank.device, 0));
    EXPECT_EQ(result.times.forward, 2500);
    EXPECT_EQ(result.times.backward, 5000);
    EXPECT_EQ(result.times.sync_wait, 7500);
    EXPECT_EQ(result.times.optimizer, 10000);
  });
}

TEST(TrainerPhasesTest, CountsWhatAStepHasToCompute) {
  OnTwoRanks([](Rank& rank) {
    const double flops = rank.trainer.CountFlops(BatchOf(rank.device, rank.group.rank()));
    // Six for each weight of a product and token, and attention.
    double weights = 0;
    for (const auto* const param : rank.trainer.params()) {
      if (param->shape().size() == 2 && param->name() != "token_embeddings.weight") {
        weights += static_cast<double>(param->numel());
      }
    }
    EXPECT_GT(flops, 6 * weights * 8);
    EXPECT_LT(flops, 7 * weights * 8);
  });
}

TEST(TrainerPhasesTest, SteadyStepsAllocateNothing) {
  OnTwoRanks([](Rank& rank) {
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    std::vector<std::unique_ptr<ddp::Strategy>> strategies;
    for (const std::string& name : Strategies()) strategies.push_back(rank.Make(name));
    int64_t allocations = 0;
    for (int round = 0; round < 4; ++round) {
      if (round == 2) allocations = rank.device->allocator().stats().source_allocations;
      for (const auto& strategy : strategies) rank.Step(*strategy, batch);
    }
    EXPECT_EQ(rank.device->allocator().stats().source_allocations, allocations);
  });
}

}  // namespace
}  // namespace gradsync::bench
