#include "bench/training/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/timing/op_recorder.h"
#include "bench/timing/range_sink.h"
#include "bench/training/batches.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "model/resnet.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Tensor;

std::unique_ptr<model::Model> MicroTransformer(const model::DevicePtr& device) {
  model::TransformerConfig config;
  config.d_model = config.d_ff = 8;
  config.num_layers = config.num_heads = 1;
  config.vocab_size = 16;
  config.context_length = 4;
  return std::make_unique<model::Transformer>(config, device, DType::kF64, 0);
}

std::unique_ptr<model::Model> MicroResNet(const model::DevicePtr& device) {
  const model::ResNetConfig config = {
      .name = "micro", .num_blocks = {1, 1, 1, 1}, .width = 4, .num_classes = 3};
  return std::make_unique<model::ResNet>(config, device, DType::kF64, 0);
}

Batch BatchOf(const model::DevicePtr& device, int rank) {
  const Tensor ids = Tensor::Empty(device, {2, 4}, DType::kI32);
  for (int i = 0; i < 8; ++i) ids.data<int32_t>()[i] = (5 * i + 3 * rank) % 16;
  return {ids, ids};
}

// Another one on each rank.
Batch ImagesOf(const model::DevicePtr& device, int rank) {
  const Tensor images = Tensor::Empty(device, {3, 3, 16, 16}, DType::kF64);
  const Tensor targets = Tensor::Empty(device, {3, 3}, DType::kF64);
  UniformImages(7)->Fill(rank, 0, {images, targets});
  return {images, targets};
}

using MakeModel = std::function<std::unique_ptr<model::Model>(const model::DevicePtr& device)>;

// One rank of two, with a replica.
struct Rank {
  Rank(std::unique_ptr<comm::ProcessGroup> inner, const MakeModel& make_model, const TrainerOptions& options)
      : group(std::move(inner)),
        device(model::CpuDevice()),
        trainer(make_model(device), options, device, group, CpuClock(ThreadIds())) {
    trainer.Restart();
  }
  std::unique_ptr<ddp::Strategy> Make(const std::string& name) {
    return trainer.NewStrategy(name, {.bucket_bytes = 512}, group);
  }
  StepResult Step(ddp::Strategy& strategy, const Batch& batch) {
    return trainer.Step({strategy, group}, batch);
  }
  std::vector<double> Grad(size_t i) { return trainer.params()[i]->grad().ToVector<double>(); }
  std::vector<std::vector<double>> Grads() {
    std::vector<std::vector<double>> grads;
    for (size_t i = 0; i < trainer.params().size(); ++i) grads.push_back(Grad(i));
    return grads;
  }

  comm::RecordingProcessGroup group;
  model::DevicePtr device;
  Trainer trainer;
};

void OnTwoRanks(const std::function<void(Rank& rank)>& body, const MakeModel& make_model = MicroTransformer,
                const TrainerOptions& options = {}, const std::string& backend = "local") {
  auto groups = comm::MakeGroups(backend, 2);
  comm::RunRanks(2, [&](int number) {
    Rank rank(std::move(groups[static_cast<size_t>(number)]), make_model, options);
    body(rank);
  });
}

// Those that take this model's f64 and that do in each step what they do in any.
std::vector<std::string> Strategies() {
  std::vector<std::string> names = ddp::StrategyNames();
  std::erase_if(names, [](const std::string& name) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    return traits.needs_f32 || !traits.period_option.empty();
  });
  return names;
}

// What `expected` says of every gradient, after each strategy's step.
void ExpectOfAllStrategies(Rank& rank, const Batch& batch, const std::vector<std::vector<double>>& expected,
                           int64_t parts = 1) {
  std::map<std::string, std::unique_ptr<ddp::Strategy>> strategies;
  for (const std::string& name : Strategies()) strategies[name] = rank.Make(name);
  // Three rounds, since `core` moves its buckets after the first.
  for (int round = 0; round < 3; ++round) {
    for (const auto& [name, strategy] : strategies) {
      rank.trainer.Restart();
      strategy->Reset();
      rank.trainer.StepWithWholeGradients(
          {.strategy = *strategy, .group = rank.group, .accumulation_steps = parts}, batch);
      if (ddp::TraitsOf(name).agreement != ddp::Agreement::kExact) continue;
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::vector<double> found = rank.Grad(i);
        for (size_t j = 0; j < found.size(); ++j) ASSERT_NEAR(found[j], expected[i][j], 1e-12) << name;
      }
    }
  }
}

// Each in its own place, and at least as long as it is said to be.
TEST(TrainerTest, DelaysAreWhereTheyWereAskedFor) {
  static constexpr int64_t kDelayNs = 20'000'000;
  OnTwoRanks([](Rank& rank) {
    const auto strategy = rank.Make("core");
    const Batch batch = BatchOf(rank.device, 0);
    const auto step = [&](const Delays& delays) {
      return rank.trainer.Step({.strategy = *strategy, .group = rank.group, .delays = delays}, batch);
    };
    EXPECT_GE(step({.forward_ns = kDelayNs}).marks.forward_ns(), kDelayNs);
    const StepResult hook = step({.hook_ns = kDelayNs});
    EXPECT_GE(hook.marks.backward_ns(), kDelayNs);
    EXPECT_GE(hook.hooks_ns.value_or(0), kDelayNs);
    // Before anything is sent, which could hide it.
    EXPECT_GE(rank.group.entries().front().issue_ns, hook.marks[Mark::kForwardEnd] + kDelayNs);
    EXPECT_GE(step({.wait_ns = kDelayNs}).marks.sync_exposed_ns(), kDelayNs);
  });
}

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

TEST(TrainerTest, PhasesAndOperationsAreRangesOfTheSink) {
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
    EXPECT_EQ(rank.trainer.phase(), "end");
  });
}

TEST(TrainerTest, StrategiesInTurnOnOneReplicaAllEqualTheSingleProcess) {
  OnTwoRanks([](Rank& rank) {
    // Alone on the whole batch.
    const Tensor ids = Tensor::Empty(rank.device, {4, 4}, DType::kI32);
    for (int r = 0; r < 2; ++r) ids.Slice(8 * r, {2, 4}).CopyFrom(BatchOf(rank.device, r).inputs);
    rank.trainer.GradientsAlone(std::vector<Batch>{{ids, ids}});
    ExpectOfAllStrategies(rank, BatchOf(rank.device, rank.group.rank()), rank.Grads());
  });
}

// Where ranks have memory in common, a strategy with parts of the state trains weights there, which the turns
// of others leave alone, and which leave alone those of others. `core` trains the same ones. (AdamW's number
// of steps is that of all turns.)
TEST(TrainerTest, WeightsInCommonMemoryAreTheirStrategysOwn) {
  OnTwoRanks(
      [](Rank& rank) {
        const Batch batch = BatchOf(rank.device, rank.group.rank());
        const auto values = [&] {
          std::vector<double> all;
          for (const model::Parameter* param : rank.trainer.params()) {
            const std::vector<double> of_one = param->value().ToVector<double>();
            all.insert(all.end(), of_one.begin(), of_one.end());
          }
          return all;
        };
        const auto all_near = [](const std::vector<double>& found, const std::vector<double>& expected) {
          return std::ranges::equal(found, expected,
                                    [](double a, double b) { return std::abs(a - b) < 1e-9; });
        };
        const auto core = rank.Make("core");
        for (int step = 0; step < 3; ++step) rank.Step(*core, batch);
        const std::vector<double> expected = values();
        for (const std::string& name : Strategies()) {
          const ddp::Traits& traits = ddp::TraitsOf(name);
          if (!traits.shards_state) continue;
          const auto sharded = rank.Make(name);
          for (int turn = 0; turn < 2; ++turn) {
            rank.trainer.Restart();
            sharded->Reset();
            const int64_t shared = rank.trainer.SharedBytes(traits);
            for (int step = 0; step < 3; ++step) {
              rank.Step(*sharded, batch);
              EXPECT_EQ(shared - rank.trainer.SharedBytes(traits), 8 * rank.trainer.num_elements()) << name;
              sharded->CompleteValues();
              EXPECT_EQ(all_near(values(), expected), step == 2) << name << ", step " << step;
              rank.Step(*core, batch);
              EXPECT_EQ(all_near(values(), expected), step == 2) << name << "'s other, step " << step;
              EXPECT_EQ(rank.trainer.SharedBytes(traits), shared);
            }
          }
        }
      },
      MicroTransformer, {.optimizer = "sgd"}, "shm");
}

TEST(TrainerTest, AloneOnBothBatchesIsAloneOnTheWhole) {
  OnTwoRanks([](Rank& rank) {
    const std::vector<Batch> batches = {BatchOf(rank.device, 0), BatchOf(rank.device, 1)};
    rank.trainer.GradientsAlone(batches);
    rank.trainer.Restart();
    const std::vector<std::vector<double>> one_after_the_other = rank.Grads();
    const Tensor ids = Tensor::Empty(rank.device, {4, 4}, DType::kI32);
    for (int r = 0; r < 2; ++r) ids.Slice(8 * r, {2, 4}).CopyFrom(batches[static_cast<size_t>(r)].inputs);
    rank.trainer.GradientsAlone(std::vector<Batch>{{ids, ids}});
    for (size_t i = 0; i < one_after_the_other.size(); ++i) {
      const std::vector<double> whole = rank.Grad(i);
      for (size_t j = 0; j < whole.size(); ++j) ASSERT_NEAR(one_after_the_other[i][j], whole[j], 1e-12);
    }
  });
}

// A batch of all rows that these ranks see in two parts each.
Batch BothBatches(const model::DevicePtr& device, int first_rank) {
  const Tensor ids = Tensor::Empty(device, {4, 4}, DType::kI32);
  for (int i = 0; i < 2; ++i) ids.Slice(8 * i, {2, 4}).CopyFrom(BatchOf(device, first_rank + i).inputs);
  return {ids, ids};
}

// Two ranks with two parts each are a single process on four batches.
TEST(TrainerTest, AccumulatedPartsEqualTheSingleProcess) {
  OnTwoRanks([](Rank& rank) {
    std::vector<Batch> all;
    double loss = 0;
    for (int i = 0; i < 4; ++i) {
      all.push_back(BatchOf(rank.device, i));
      if (i / 2 == rank.group.rank()) loss += ToDouble(rank.trainer.model().Loss(all.back()).value()) / 2;
    }
    rank.trainer.GradientsAlone(all);
    const std::vector<std::vector<double>> expected = rank.Grads();
    const Batch own = BothBatches(rank.device, 2 * rank.group.rank());
    rank.trainer.Restart();
    const auto naive = rank.Make("naive");
    rank.trainer.StepWithWholeGradients({.strategy = *naive, .group = rank.group, .accumulation_steps = 2},
                                        own);
    EXPECT_NEAR(rank.trainer.loss(), loss, 1e-12);
    ExpectOfAllStrategies(rank, own, expected, /*parts=*/2);
  });
}

// However many parts a step has, it communicates as one without, and in the last backward pass at the
// earliest.
TEST(TrainerTest, StrategiesHearOfTheLastPartAlone) {
  OnTwoRanks([](Rank& rank) {
    const Batch batch = BothBatches(rank.device, rank.group.rank());
    for (const std::string& name : Strategies()) {
      const auto strategy = rank.Make(name);
      std::vector<size_t> collectives;
      for (const int64_t parts : {1, 1, 4}) {  // After the first step, layouts stay.
        const StepResult result = rank.trainer.Step(
            {.strategy = *strategy, .group = rank.group, .accumulation_steps = parts}, batch);
        const auto entries = rank.group.entries();
        collectives.push_back(entries.size());
        if (strategy->hears_every_pass()) continue;
        for (const auto& entry : entries) EXPECT_GE(entry.issue_ns, result.marks[Mark::kForwardEnd]) << name;
      }
      EXPECT_EQ(collectives[1] == collectives[2], !strategy->hears_every_pass()) << name;
    }
  });
}

// By the definition, in f64: w - rate * g * min(1, limit / |g|), of the mean gradient of both ranks.
TEST(TrainerTest, ClippedStepsAreTheEquations) {
  constexpr double kRate = 1e-3;
  OnTwoRanks(
      [](Rank& rank) {
        const Batch batch = BatchOf(rank.device, rank.group.rank());
        rank.trainer.GradientsAlone(std::vector<Batch>{BatchOf(rank.device, 0), BatchOf(rank.device, 1)});
        const std::vector<std::vector<double>> grads = rank.Grads();
        double squares = 0;
        for (const std::vector<double>& grad : grads) {
          for (const double g : grad) squares += g * g;
        }
        const auto values_after_step = [&](const std::string& name, double limit) {
          const auto strategy = rank.Make(name);
          rank.trainer.Restart();
          rank.trainer.Step({.strategy = *strategy, .group = rank.group, .clip_norm = limit}, batch);
          strategy->CompleteValues();
          std::vector<std::vector<double>> values;
          for (const auto* param : rank.trainer.params()) values.push_back(param->value().ToVector<double>());
          return values;
        };
        rank.trainer.Restart();
        std::vector<std::vector<double>> start;
        for (const auto* param : rank.trainer.params()) start.push_back(param->value().ToVector<double>());
        for (const std::string& name : Strategies()) {
          const ddp::Traits& traits = ddp::TraitsOf(name);
          if (traits.agreement != ddp::Agreement::kExact || !traits.can_clip) continue;
          const auto clipped = values_after_step(name, 0.25 * std::sqrt(squares));
          for (size_t i = 0; i < start.size(); ++i) {
            for (size_t j = 0; j < start[i].size(); ++j)
              ASSERT_NEAR(clipped[i][j], start[i][j] - kRate * 0.25 * grads[i][j], 1e-15) << name;
          }
          // Below the limit nothing changes, bit for bit.
          EXPECT_EQ(values_after_step(name, 4 * std::sqrt(squares)),
                    values_after_step(name, std::numeric_limits<double>::infinity()))
              << name;
        }
      },
      MicroTransformer, {.optimizer = "sgd"});
}

// A batch norm sees one rank's images only, so the single process must not see them all at once either.
TEST(TrainerTest, BatchNormsEqualTheSingleProcessThatTakesTheRanksBatchesInTurn) {
  OnTwoRanks(
      [](Rank& rank) {
        rank.trainer.GradientsAlone(std::vector<Batch>{ImagesOf(rank.device, 0), ImagesOf(rank.device, 1)});
        ExpectOfAllStrategies(rank, ImagesOf(rank.device, rank.group.rank()), rank.Grads());
      },
      MicroResNet);
}

TEST(TrainerTest, EveryStrategysStepBeginsWithRankZerosBuffers) {
  OnTwoRanks(
      [](Rank& rank) {
        const Batch images = ImagesOf(rank.device, rank.group.rank());
        const Tensor mean = rank.trainer.model().buffers().front().value;
        const std::vector<double> initial = mean.ToVector<double>();
        for (const std::string& name : Strategies()) {
          const auto strategy = rank.Make(name);
          rank.trainer.Restart();
          EXPECT_EQ(mean.ToVector<double>(), initial);
          // Nine tenths of what was there stay, were it not replaced.
          const std::vector<double> strange(initial.size(), 1000);
          if (rank.group.rank() == 1) mean.CopyFrom(Tensor::From<double>(rank.device, mean.shape(), strange));
          rank.Step(*strategy, images);
          EXPECT_LT(std::abs(mean.ToVector<double>().front()), 100) << name;
          EXPECT_EQ(rank.group.entries().front().collective, comm::Collective::kBroadcast) << name;
          // In the first one, a strategy may also send the order of gradients.
          rank.Step(*strategy, images);
          const auto broadcasts = std::count_if(
              rank.group.entries().begin(), rank.group.entries().end(),
              [](const auto& entry) { return entry.collective == comm::Collective::kBroadcast; });
          EXPECT_EQ(broadcasts, 1) << name;
        }
      },
      MicroResNet);
}

// Not in the run's own, whose backend may be another.
TEST(TrainerTest, BuffersGoThroughTheStrategysGroup) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks(
      [&](Rank& rank) {
        comm::RecordingProcessGroup own(std::move(groups[static_cast<size_t>(rank.group.rank())]));
        const Batch images = ImagesOf(rank.device, rank.group.rank());
        const auto strategy = rank.trainer.NewStrategy("naive", {}, own);
        rank.trainer.Step({*strategy, own}, images);
        EXPECT_EQ(own.entries().front().collective, comm::Collective::kBroadcast);
        EXPECT_TRUE(rank.group.entries().empty());
        own.Clear();
        rank.trainer.StepWithWholeGradients({*strategy, own}, images);
        EXPECT_EQ(own.entries().front().collective, comm::Collective::kBroadcast);
        EXPECT_TRUE(rank.group.entries().empty());
      },
      MicroResNet);
}

TEST(TrainerTest, AStepLogsItsOwnCollectivesAndPhases) {
  OnTwoRanks([](Rank& rank) {
    const auto naive = rank.Make("naive");
    const auto none = rank.Make("none");
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    const StepResult result = rank.Step(*naive, batch);
    EXPECT_EQ(rank.group.entries().size(), rank.trainer.params().size());
    EXPECT_GT(result.comm_busy_ns, 0);
    EXPECT_LE(result.comm_busy_ns, result.marks.step_ns());
    for (size_t i = 0; i + 1 < kNumMarks; ++i) EXPECT_LE(result.marks.at_ns[i], result.marks.at_ns[i + 1]);

    EXPECT_EQ(rank.Step(*none, batch).comm_busy_ns, 0);
    EXPECT_TRUE(rank.group.entries().empty());
  });
}

// 1.5 ms until a collective is there.
class SlowGroup : public comm::GroupDecorator {
 public:
  using GroupDecorator::GroupDecorator;
  comm::Work Issue(comm::Request request) override {
    struct Slow : comm::Work::State {
      void Wait() override { std::this_thread::sleep_for(std::chrono::microseconds(1500)); }
      comm::Interval interval() override { return {}; }
      bool Done() override { return true; }
    };
    GroupDecorator::Issue(std::move(request)).Wait();
    return comm::Work(std::make_shared<Slow>());
  }
};

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
TEST(TrainerTest, WhatAnUpdateWaitsIsExposed) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    Waiting strategy(slow);
    slow.Barrier();  // before the step
    const StepResult result = rank.trainer.Step({strategy, slow}, BatchOf(rank.device, 0));
    EXPECT_GE(result.waited_ns, 1'500'000);
    EXPECT_LT(result.waited_ns, slow.waited_ns());
    EXPECT_GE(result.marks.sync_exposed_ns(), 1'500'000);
    EXPECT_GE(result.marks.optimizer_ns(), 500'000);
    EXPECT_EQ(result.marks.step_ns(),
              result.marks.forward_ns() + result.marks.backward_and_sync_ns() + result.marks.optimizer_ns());
    // A period has the means of its steps, and all their waits.
    const StepResult three =
        rank.trainer.Step({.strategy = strategy, .group = slow, .num_steps = 3}, BatchOf(rank.device, 0));
    EXPECT_GE(three.waited_ns, 3 * 1'500'000);
    EXPECT_GE(three.marks.sync_exposed_ns(), 1'500'000);
    EXPECT_GE(three.marks.optimizer_ns(), 500'000);
  });
}

// Forward and backward wait for the weights of each of four units, and backward also for reductions.
TEST(TrainerTest, WhatForwardAndBackwardWaitIsKnown) {
  auto groups = comm::MakeGroups("local", 2);
  OnTwoRanks([&](Rank& rank) {
    comm::RecordingProcessGroup slow(
        std::make_unique<SlowGroup>(std::move(groups[static_cast<size_t>(rank.group.rank())])));
    ddp::StrategyOptions options;
    options.values = {{"prefetch", 0}};
    const auto strategy = rank.trainer.NewStrategy("zero3", options, slow);
    const StepResult result = rank.trainer.Step({*strategy, slow}, BatchOf(rank.device, 0));
    const int64_t of_units_ns = 4 * 1'500'000;
    EXPECT_GE(result.forward_waited_ns, of_units_ns);
    EXPECT_LT(result.forward_waited_ns, result.marks.forward_ns());
    ASSERT_TRUE(result.backward_gathers_ns.has_value());
    EXPECT_GE(*result.backward_gathers_ns, of_units_ns);
    EXPECT_GE(result.hooks_waited_ns, *result.backward_gathers_ns + 1'500'000);
    EXPECT_LT(result.hooks_waited_ns, result.marks.backward_ns());
    EXPECT_GE(result.waited_ns, result.forward_waited_ns + result.hooks_waited_ns);
    // Others gather nothing that they read.
    const auto zero2 = rank.trainer.NewStrategy("zero2", {}, slow);
    EXPECT_FALSE(rank.trainer.Step({*zero2, slow}, BatchOf(rank.device, 0)).backward_gathers_ns.has_value());
  });
}

// The steps that count wait in forward for what the step before them has left.
TEST(TrainerTest, ALeadInIsTakenAndNotTimed) {
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
    EXPECT_EQ(result.period_steps_ns.size(), 2u);
    EXPECT_GE(result.forward_waited_ns, 1'500'000);
    EXPECT_LT(result.forward_waited_ns, result.marks.forward_ns());
    EXPECT_EQ(result.backward_gathers_ns, 0);
    EXPECT_GT(result.built_bytes, 0);
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

TEST(TrainerTest, APeriodsTimesAreMeansOfAllItsSteps) {
  OnTwoRanks([](Rank& rank) {
    const auto none = rank.Make("none");
    rank.trainer.SetClock(std::make_unique<ScriptedTimer>(), comm::Now);
    const StepResult result =
        rank.trainer.Step({.strategy = *none, .group = rank.group, .num_steps = 4}, BatchOf(rank.device, 0));
    EXPECT_EQ(result.marks.forward_ns(), 2500);
    EXPECT_EQ(result.marks.backward_ns(), 5000);
    EXPECT_EQ(result.marks.sync_exposed_ns(), 7500);
    EXPECT_EQ(result.marks.optimizer_ns(), 10000);
  });
}

// In the step in which they communicate, and in no other.
TEST(TrainerTest, ThoseWithAPeriodBroadcastBuffersOncePerPeriod) {
  OnTwoRanks(
      [](Rank& rank) {
        const Batch images = ImagesOf(rank.device, rank.group.rank());
        for (const std::string& name : ddp::StrategyNames()) {
          const ddp::Traits& traits = ddp::TraitsOf(name);
          if (traits.period_option.empty()) continue;
          const auto strategy = rank.trainer.NewStrategy(
              name, {.values = {{std::string(traits.period_option), 3}}}, rank.group);
          rank.trainer.Step({.strategy = *strategy, .group = rank.group, .num_steps = 3}, images);
          std::vector<comm::Collective> collectives;
          for (const auto& entry : rank.group.entries()) collectives.push_back(entry.collective);
          EXPECT_EQ(std::ranges::count(collectives, comm::Collective::kBroadcast), 1) << name;
          EXPECT_EQ(collectives.front(), comm::Collective::kBroadcast) << name;
          EXPECT_GT(collectives.size(), 1) << name;
        }
      },
      MicroResNet);
}

TEST(TrainerTest, AStepKnowsTheMomentsOfItsBuckets) {
  OnTwoRanks([](Rank& rank) {
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    for (const std::string& name : Strategies()) {
      const auto strategy = rank.Make(name);
      const auto order = [&] {
        std::vector<model::Parameter*> params;
        for (const ddp::Bucket& bucket : strategy->plan().buckets) params.push_back(bucket.params.front());
        return params;
      };
      for (int step = 0; step < 3; ++step) {
        const auto order_before = order();
        const StepResult result = rank.Step(*strategy, batch);
        const BucketMoments& moments = result.moments;
        ASSERT_EQ(moments.ready_ns.size(), strategy->plan().buckets.size()) << name;
        // It has just moved them, or it sends something else than what is ready.
        if (order() != order_before || strategy->hears_uses()) {
          EXPECT_EQ(moments, UnknownMoments(moments.ready_ns.size()));
          continue;
        }
        for (size_t i = 0; i < moments.ready_ns.size(); ++i) {
          EXPECT_GE(moments.ready_ns[i], result.marks.forward_ns()) << name;
          EXPECT_LE(moments.ready_ns[i], result.marks.forward_ns() + result.marks.backward_ns()) << name;
          for (const auto* const later : {&moments.issued_ns, &moments.started_ns, &moments.ended_ns}) {
            EXPECT_GE((*later)[i], 0) << name;
          }
          EXPECT_LE(moments.ready_ns[i] + moments.issued_ns[i] + moments.started_ns[i] + moments.ended_ns[i],
                    result.marks.step_ns())
              << name;
        }
      }
    }
  });
}

TEST(TrainerTest, CountsWhatAStepHasToCompute) {
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

TEST(TrainerTest, TheRecorderHearsOfBackwardOnly) {
  OnTwoRanks([](Rank& rank) {
    const auto flat = rank.Make("flat");
    OpRecorder recorder;
    const StepResult result =
        rank.trainer.Step({*flat, rank.group}, BatchOf(rank.device, rank.group.rank()), &recorder);
    ASSERT_FALSE(recorder.ops().empty());
    for (const TracedOp& op : recorder.ops()) {
      EXPECT_GE(op.begin_ns, result.marks[Mark::kForwardEnd]);
      EXPECT_LE(op.end_ns, result.marks[Mark::kBackwardEnd]);
    }
    EXPECT_EQ(rank.device->tracer(), nullptr);
  });
}

TEST(TrainerTest, KnowsTheLossOfAStep) {
  OnTwoRanks([](Rank& rank) {
    const auto core = rank.Make("core");
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    rank.Step(*core, batch);
    const double loss = rank.trainer.loss();
    // About log(16) for random weights.
    EXPECT_GT(loss, 1);
    EXPECT_LT(loss, 10);
  });
}

TEST(TrainerTest, SteadyStepsAllocateNothing) {
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
