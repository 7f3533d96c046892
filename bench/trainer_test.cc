#include "bench/trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/local_process_group.h"
#include "comm/rank_threads.h"
#include "ddp/factory.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::DType;
using model::Tensor;

DdpOptions MicroOptions() {
  DdpOptions options;
  options.d_model = options.d_ff = 8;
  options.num_layers = options.num_heads = 1;
  options.vocab_size = 16;
  options.seq_lens = {4};
  options.dtype = "f64";
  return options;
}

Batch BatchOf(const model::DevicePtr& device, int rank) {
  const Tensor ids = Tensor::Empty(device, {2, 4}, DType::kI32);
  for (int i = 0; i < 8; ++i) ids.data<int32_t>()[i] = (5 * i + 3 * rank) % 16;
  return {ids, ids};
}

// One rank of two, with a replica.
struct Rank {
  Rank(int number, std::unique_ptr<comm::ProcessGroup> inner)
      : group(std::move(inner)), device(model::CpuDevice()), trainer(MicroOptions(), device, number) {
    trainer.Restart(group);
  }
  std::unique_ptr<ddp::Strategy> Make(const std::string& name) {
    return ddp::MakeStrategy(name, {trainer.params(), group, {.bucket_bytes = 512}});
  }
  std::vector<double> Grad(size_t i) { return trainer.params()[i]->grad().ToVector<double>(); }

  comm::RecordingProcessGroup group;
  model::DevicePtr device;
  Trainer trainer;
};

void OnTwoRanks(const std::function<void(Rank& rank)>& body) {
  auto groups = comm::MakeLocalGroups(2);
  comm::RunRanks(2, [&](int number) {
    Rank rank(number, std::move(groups[static_cast<size_t>(number)]));
    body(rank);
  });
}

TEST(TrainerTest, StrategiesInTurnOnOneReplicaAllEqualTheSingleProcess) {
  OnTwoRanks([](Rank& rank) {
    // Alone on the whole batch.
    const Tensor ids = Tensor::Empty(rank.device, {4, 4}, DType::kI32);
    for (int r = 0; r < 2; ++r) ids.Slice(8 * r, {2, 4}).CopyFrom(BatchOf(rank.device, r).inputs);
    rank.trainer.StepAlone({ids, ids});
    std::vector<std::vector<double>> expected;
    for (size_t i = 0; i < rank.trainer.params().size(); ++i) expected.push_back(rank.Grad(i));

    std::map<std::string, std::unique_ptr<ddp::Strategy>> strategies;
    for (const std::string& name : ddp::StrategyNames()) strategies[name] = rank.Make(name);
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    // Three rounds, since `core` moves its buckets after the first.
    for (int round = 0; round < 3; ++round) {
      for (const auto& [name, strategy] : strategies) {
        rank.trainer.Restart(rank.group);
        rank.trainer.Step(*strategy, batch, rank.group, nullptr);
        if (name == "none") continue;
        for (size_t i = 0; i < expected.size(); ++i) {
          const std::vector<double> found = rank.Grad(i);
          for (size_t j = 0; j < found.size(); ++j) ASSERT_NEAR(found[j], expected[i][j], 1e-12) << name;
        }
      }
    }
  });
}

TEST(TrainerTest, AStepLogsItsOwnCollectivesAndPhases) {
  OnTwoRanks([](Rank& rank) {
    const auto naive = rank.Make("naive");
    const auto none = rank.Make("none");
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    const StepResult result = rank.trainer.Step(*naive, batch, rank.group, nullptr);
    EXPECT_EQ(rank.group.entries().size(), rank.trainer.params().size());
    EXPECT_GT(result.comm_busy_ns, 0);
    EXPECT_LE(result.comm_busy_ns, result.marks.step_ns());
    for (size_t i = 0; i + 1 < kNumMarks; ++i) EXPECT_LE(result.marks.at_ns[i], result.marks.at_ns[i + 1]);

    EXPECT_EQ(rank.trainer.Step(*none, batch, rank.group, nullptr).comm_busy_ns, 0);
    EXPECT_TRUE(rank.group.entries().empty());
  });
}

TEST(TrainerTest, TheRecorderHearsOfBackwardOnly) {
  OnTwoRanks([](Rank& rank) {
    const auto flat = rank.Make("flat");
    OpRecorder recorder;
    const StepResult result =
        rank.trainer.Step(*flat, BatchOf(rank.device, rank.group.rank()), rank.group, &recorder);
    ASSERT_FALSE(recorder.ops().empty());
    for (const TracedOp& op : recorder.ops()) {
      EXPECT_GE(op.begin_ns, result.marks[Mark::kForwardEnd]);
      EXPECT_LE(op.end_ns, result.marks[Mark::kBackwardEnd]);
    }
    EXPECT_EQ(rank.device->tracer(), nullptr);
  });
}

TEST(TrainerTest, GradientsLeavesTheWeightsAndReturnsTheLoss) {
  OnTwoRanks([](Rank& rank) {
    const auto core = rank.Make("core");
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    const std::vector<double> before = rank.trainer.params()[0]->value().ToVector<double>();
    const double loss = rank.trainer.Gradients(*core, batch);
    // About log(16) for random weights.
    EXPECT_GT(loss, 1);
    EXPECT_LT(loss, 10);
    EXPECT_EQ(rank.trainer.params()[0]->value().ToVector<double>(), before);
  });
}

TEST(TrainerTest, SteadyStepsAllocateNothing) {
  OnTwoRanks([](Rank& rank) {
    const Batch batch = BatchOf(rank.device, rank.group.rank());
    std::vector<std::unique_ptr<ddp::Strategy>> strategies;
    for (const std::string& name : ddp::StrategyNames()) strategies.push_back(rank.Make(name));
    int64_t allocations = 0;
    for (int round = 0; round < 4; ++round) {
      if (round == 2) allocations = rank.device->allocator().stats().source_allocations;
      for (const auto& strategy : strategies) rank.trainer.Step(*strategy, batch, rank.group, nullptr);
    }
    EXPECT_EQ(rank.device->allocator().stats().source_allocations, allocations);
  });
}

}  // namespace
}  // namespace gradsync::bench
