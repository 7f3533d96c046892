// What a step computes.
#include "bench/training/trainer_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Tensor;

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

TEST(TrainerTest, StrategiesInTurnOnOneReplicaAllEqualTheSingleProcess) {
  OnTwoRanks([](Rank& rank) {
    // Alone on the whole batch.
    const Tensor ids = Tensor::Empty(rank.device, {4, 4}, DType::kI32);
    for (int r = 0; r < 2; ++r) ids.Slice(8 * r, {2, 4}).CopyFrom(BatchOf(rank.device, r).inputs);
    rank.trainer.ComputeGradientsAlone(std::vector<Batch>{{ids, ids}});
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
      MicroTransformer, {.optimizer = OptimizerKind::kSgd}, "shm");
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
    rank.trainer.ComputeGradientsAlone(all);
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
        if (strategy->needs_every_pass()) continue;
        for (const auto& entry : entries)
          EXPECT_GE(entry.issue_ns, result.marks.front()[Mark::kForwardEnd]) << name;
      }
      EXPECT_EQ(collectives[1] == collectives[2], !strategy->needs_every_pass()) << name;
    }
  });
}

// By the definition, in f64: w - rate * g * min(1, limit / |g|), of the mean gradient of both ranks.
TEST(TrainerTest, ClippedStepsAreTheEquations) {
  constexpr double kRate = 1e-3;
  OnTwoRanks(
      [](Rank& rank) {
        const Batch batch = BatchOf(rank.device, rank.group.rank());
        rank.trainer.ComputeGradientsAlone(
            std::vector<Batch>{BatchOf(rank.device, 0), BatchOf(rank.device, 1)});
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
      MicroTransformer, {.optimizer = OptimizerKind::kSgd});
}

// A batch norm sees one rank's images only, so the single process must not see them all at once either.
TEST(TrainerTest, BatchNormsEqualTheSingleProcessThatTakesTheRanksBatchesInTurn) {
  OnTwoRanks(
      [](Rank& rank) {
        rank.trainer.ComputeGradientsAlone(
            std::vector<Batch>{ImagesOf(rank.device, 0), ImagesOf(rank.device, 1)});
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
        const StepResult result = rank.trainer.Step({*strategy, own}, images);
        // The wait for them is no synchronisation.
        EXPECT_EQ(result.times.sync_wait, result.marks.front().Between(Mark::kBackwardEnd, Mark::kSyncEnd));
        const auto none = rank.trainer.NewStrategy("none", {}, own);
        rank.trainer.Step({*none, own}, images);
        EXPECT_EQ(own.entries().front().collective, comm::Collective::kBroadcast);
        EXPECT_TRUE(rank.group.entries().empty());
        own.Clear();
        rank.trainer.StepWithWholeGradients({*strategy, own}, images);
        EXPECT_EQ(own.entries().front().collective, comm::Collective::kBroadcast);
        EXPECT_TRUE(rank.group.entries().empty());
      },
      MicroResNet);
}

// Of steps behind one that is not timed, each communicates.
TEST(TrainerTest, StepsBehindALeadInBroadcastBuffersEach) {
  OnTwoRanks(
      [](Rank& rank) {
        const auto naive = rank.Make("naive");
        rank.trainer.Step({.strategy = *naive, .group = rank.group, .num_steps = 3, .lead_in_steps = 1},
                          ImagesOf(rank.device, rank.group.rank()));
        EXPECT_EQ(std::ranges::count(rank.group.entries(), comm::Collective::kBroadcast,
                                     &comm::RecordingProcessGroup::Entry::collective),
                  4);
      },
      MicroResNet);
}

// In the step in which they communicate, and in no other.
TEST(TrainerTest, ThoseWithAPeriodBroadcastBuffersOncePerPeriod) {
  OnTwoRanks(
      [](Rank& rank) {
        const Batch images = ImagesOf(rank.device, rank.group.rank());
        for (const std::string& name : ddp::StrategyNames()) {
          const ddp::Traits& traits = ddp::TraitsOf(name);
          if (traits.OptionFor(ddp::Option::Role::kPeriod).empty()) continue;
          const auto strategy = rank.trainer.NewStrategy(
              name, {.values = {{std::string(traits.OptionFor(ddp::Option::Role::kPeriod)), 3}}}, rank.group);
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

}  // namespace
}  // namespace gradsync::bench
