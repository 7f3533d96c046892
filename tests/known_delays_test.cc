// Delays of known length are put into steps, and have to be found in the right part of what synchronisation
// costs. Clocks are counters, one for each rank, which nothing but these delays moves: so all is exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/training/trainer.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "ddp/buckets/bucket.h"
#include "ddp/factory.h"
#include "model/transformer/transformer.h"
#include "tools/measurements/measurement.h"

namespace gradsync {
namespace {

using bench::Mark;
using bench::StepResult;
using model::Tensor;

constexpr int kRanks = 2;
constexpr int64_t kForwardOp = 100, kBackwardOp = 300;  // what each operation takes
constexpr int64_t kCollective = 50;                     // what each collective takes
constexpr int64_t kDelay = 1'000'000;                   // longer than all of these together

// What is late on one rank in one step; 0: nothing.
struct Delays {
  int64_t before_barrier = 0, after_barrier = 0;
  int64_t begin_step = 0, first_hook = 0;         // the strategy's own work
  int64_t first_gradient = 0, last_gradient = 0;  // computation
  int64_t first_collective = 0, last_collective = 0;
};
using DelaysOfRanks = std::array<Delays, kRanks>;

// One rank's time.
struct Clock {
  int64_t now_ns = 1'000'000;
  Delays delays = {};
  int num_collectives = 0, num_hooks = 0, num_backward_ops = 0;  // of this step
};

// A group whose barriers and collectives take time on the ranks' clocks.
class TimedGroup : public comm::GroupDecorator {
 public:
  TimedGroup(std::unique_ptr<comm::ProcessGroup> inner, Clock& clock, const int& last_collective)
      : GroupDecorator(std::move(inner)), clock_(clock), last_collective_(last_collective) {}

  // A collective begins when all ranks have issued it.
  comm::Work Issue(comm::Request request) override {
    const bool is_barrier = request.collective == comm::Collective::kBarrier;
    GroupDecorator::Issue(std::move(request)).Wait();
    const int64_t begin_ns = LastOfRanks(clock_.now_ns);
    if (is_barrier) {
      clock_.now_ns = begin_ns + clock_.delays.after_barrier;
      return {};
    }
    const int number = clock_.num_collectives++;
    int64_t duration_ns = kCollective;
    if (number == 0) duration_ns += clock_.delays.first_collective;
    if (number == last_collective_) duration_ns += clock_.delays.last_collective;
    return comm::Work(std::make_shared<Timed>(clock_, begin_ns + LastOfRanks(duration_ns)));
  }

 private:
  // Whoever waits for it is there when it ends.
  class Timed : public comm::Work::State {
   public:
    Timed(Clock& clock, int64_t end_ns) : clock_(clock), end_ns_(end_ns) {}
    void Wait() override { clock_.now_ns = std::max(clock_.now_ns, end_ns_); }
    comm::Interval interval() override { return {}; }
    bool Done() override { return clock_.now_ns >= end_ns_; }

   private:
    Clock& clock_;
    const int64_t end_ns_;
  };

  int64_t LastOfRanks(int64_t ns) {
    const Tensor tensor = Tensor::From<int64_t>(model::CpuDevice(), {1}, std::vector{ns});
    GroupDecorator::Issue({.collective = comm::Collective::kAllReduce,
                           .op = comm::ReduceOp::kMax,
                           .input = tensor,
                           .output = tensor})
        .Wait();
    return tensor.ToVector<int64_t>().front();
  }

  Clock& clock_;
  const int& last_collective_;
};

class TimedMarks : public bench::PhaseTimer {
 public:
  explicit TimedMarks(const Clock& clock) : clock_(clock) {}
  void Take(Mark mark) override { marks_.at_ns[static_cast<size_t>(mark)] = clock_.now_ns; }
  bench::StepMarks Read() override { return marks_; }

 private:
  const Clock& clock_;
  bench::StepMarks marks_;
};

// Hears of operations, which take time.
class TimedOperations : public model::Tracer {
 public:
  TimedOperations(Clock& clock, const int& last_op) : clock_(clock), last_op_(last_op) {}
  void Begin(std::string_view) override {
    clock_.now_ns += kBackwardOp;
    const int number = clock_.num_backward_ops++;
    if (number == 0) clock_.now_ns += clock_.delays.first_gradient;
    if (number == last_op_) clock_.now_ns += clock_.delays.last_gradient;
  }
  void End() override {}
  void Computed(std::string_view, const Tensor&, std::span<const model::Var>) override {
    clock_.now_ns += kForwardOp;
  }

 private:
  Clock& clock_;
  const int& last_op_;
};

// A strategy whose own work takes time.
class TimedStrategy : public ddp::Strategy {
 public:
  TimedStrategy(std::unique_ptr<ddp::Strategy> strategy, Clock& clock)
      : strategy_(std::move(strategy)), clock_(clock) {}
  void BeginStep() override {
    clock_.now_ns += clock_.delays.begin_step;
    strategy_->BeginStep();
  }
  void OnGradReady(model::Parameter& param) override {
    if (clock_.num_hooks++ == 0) clock_.now_ns += clock_.delays.first_hook;
    strategy_->OnGradReady(param);
  }
  void Finish() override { strategy_->Finish(); }
  double loss_scale() const override { return strategy_->loss_scale(); }
  ddp::BucketPlan plan() const override { return strategy_->plan(); }

 private:
  const std::unique_ptr<ddp::Strategy> strategy_;
  Clock& clock_;
};

std::unique_ptr<model::Model> MicroTransformer(const model::DevicePtr& device) {
  model::TransformerConfig config;
  config.d_model = config.d_ff = 8;
  config.num_layers = config.num_heads = 1;
  config.vocab_size = 16;
  config.context_length = 4;
  return std::make_unique<model::Transformer>(config, device, model::DType::kF32, 0);
}

// The last step of a strategy, with delays, on both ranks.
tools::Measurement Measure(const std::string& name, const DelaysOfRanks& delays) {
  auto groups = comm::MakeLocalGroups(kRanks);
  std::vector<bench::Record> records(kRanks);
  comm::RunRanks(kRanks, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    Clock clock;
    int last_collective = -1, last_op = -1;
    comm::RecordingProcessGroup group(
        std::make_unique<TimedGroup>(std::move(groups[r]), clock, last_collective));
    const model::DevicePtr device = model::CpuDevice();
    bench::Trainer trainer(MicroTransformer(device), {}, device, group, bench::CpuClock(bench::ThreadIds()));
    trainer.SetClock(std::make_unique<TimedMarks>(clock), [&] { return clock.now_ns; });
    trainer.Restart();
    TimedStrategy strategy(trainer.NewStrategy(name, {.bucket_bytes = 512}, group), clock);
    const Tensor ids = Tensor::Zeros(device, {2, 4}, model::DType::kI32);
    TimedOperations operations(clock, last_op);
    StepResult result;
    // The first steps settle the order of gradients, and count what a step has.
    for (int step = 0; step < 4; ++step) {
      clock.num_collectives = clock.num_hooks = clock.num_backward_ops = 0;
      if (step == 3) {
        clock.delays = delays[r];
        clock.now_ns += clock.delays.before_barrier;
      }
      result = trainer.Step({strategy, group}, {ids, ids}, &operations);
      last_collective = clock.num_collectives - 1;
      last_op = clock.num_backward_ops - 1;
    }
    EXPECT_EQ(result.times.step(), result.marks.front().step_ns());
    bench::Record& record = records[r] = bench::MakeSamples(result, 0);
    record.experiment = "ddp";
    record.rank = rank;
    record.world_size = kRanks;
    record.variant.strategy = name;
    record.facts.Set("floor", ddp::FloorTraits().name);
    record.facts.Set(bench::FactName::Of("scales_loss"), strategy.loss_scale() != 1);
  });
  EXPECT_EQ(records[0].samples.at("begin_ns")[0] - delays[0].after_barrier,
            records[1].samples.at("begin_ns")[0] - delays[1].after_barrier)
      << "ranks leave the barrier together";
  return tools::CombineRanks(std::move(records));
}

// In ns, as the tables have it.
struct Cost {
  double total = 0, exposed = 0, own = 0, tax = 0, rest = 0, skew = 0;
  bool scales_loss = false;
};

Cost CostOf(const std::string& name, const DelaysOfRanks& delays, const DelaysOfRanks& floors = {}) {
  const tools::Measurement own = Measure(name, delays), floor = Measure("none", floors);
  const auto ns = [](const tools::Measurement& measurement, bench::SampleName samples) {
    return 1e9 * measurement.Find(samples)->max.at(0);
  };
  Cost cost;
  cost.total = ns(own, "step_ns") - ns(floor, "step_ns");
  cost.exposed = ns(own, tools::kAveraged) - ns(own, tools::kWorked);
  cost.own = ns(own, tools::kWorked) - ns(own, tools::kComputed);
  cost.tax = ns(own, tools::kComputed) - ns(floor, tools::kComputed);
  cost.rest = cost.total - cost.exposed - cost.own - cost.tax;
  cost.skew = ns(own, tools::kSkew);
  cost.scales_loss = own.record.facts.BoolOr(bench::FactName::Of("scales_loss"), false);
  return cost;
}

// How much more each part is with the delays than without them; nothing is left for the rest, because the
// optimizer takes no time.
void ExpectMore(const std::string& name, const DelaysOfRanks& delays, const Cost& more,
                const DelaysOfRanks& floors = {}) {
  const Cost without = CostOf(name, {}), with = CostOf(name, delays, floors);
  constexpr double kRounding = 1e-3;
  EXPECT_NEAR(with.total - without.total, more.exposed + more.own + more.tax, kRounding) << name;
  EXPECT_NEAR(with.exposed - without.exposed, more.exposed, kRounding) << name;
  EXPECT_NEAR(with.own - without.own, more.own, kRounding) << name;
  EXPECT_NEAR(with.tax - without.tax, more.tax, kRounding) << name;
  EXPECT_NEAR(with.skew - without.skew, more.skew, kRounding) << name;
  EXPECT_NEAR(with.rest, 0, kRounding) << name;
  EXPECT_NEAR(without.rest, 0, kRounding) << name;
}

std::vector<std::string> Strategies() {
  std::vector<std::string> names = ddp::AllReduceStrategyNames();
  std::erase(names, ddp::FloorTraits().name);
  return names;
}

TEST(KnownDelaysTest, WithoutDelaysAStepCostsItsCollectives) {
  for (const std::string& name : Strategies()) {
    const Cost cost = CostOf(name, {});
    EXPECT_GE(cost.exposed, kCollective - 1e-3) << name;
    // To take the mean by scaling the loss is an operation more.
    EXPECT_NEAR(cost.tax, cost.scales_loss ? kForwardOp + kBackwardOp : 0, 1e-3) << name;
    EXPECT_NEAR(cost.total, cost.exposed + cost.tax, 1e-3) << name;
    EXPECT_NEAR(cost.own, 0, 1e-3) << name;
    EXPECT_NEAR(cost.skew, 0, 1e-3) << name;
  }
  EXPECT_NEAR(CostOf("none", {}).total, 0, 1e-3);
}

// A rank that is late before the barrier, or that leaves it late, is nobody's cost.
TEST(KnownDelaysTest, WhatIsLateAtTheBarrierCostsNothing) {
  for (const std::string& name : Strategies()) {
    ExpectMore(name, {Delays{}, Delays{.before_barrier = kDelay}}, {});
    ExpectMore(name, {Delays{.before_barrier = kDelay}, Delays{}}, {});
    // The others had computed earlier, and waited: that is skew.
    ExpectMore(name, {Delays{}, Delays{.after_barrier = kDelay}}, {.skew = kDelay});
    ExpectMore(name, {Delays{.after_barrier = kDelay}, Delays{}}, {.skew = kDelay});
  }
}

TEST(KnownDelaysTest, ASlowCollectiveIsExposed) {
  for (const std::string& name : Strategies()) {
    ExpectMore(name, {Delays{}, Delays{.last_collective = kDelay}}, {.exposed = kDelay});
  }
  // After backward nothing hides it, whichever it is.
  for (const std::string& name : Strategies()) {
    if (ddp::TraitsOf(name).overlaps) continue;
    ExpectMore(name, {Delays{.first_collective = kDelay}, Delays{}}, {.exposed = kDelay});
  }
}

// What backward hides costs nothing: a collective that is issued with the first gradients, and is done with
// the last ones.
TEST(KnownDelaysTest, ACollectiveBehindBackwardIsHidden) {
  for (const std::string& name : Strategies()) {
    if (!ddp::TraitsOf(name).overlaps) continue;
    ExpectMore(name, {Delays{.first_collective = kBackwardOp}, Delays{}}, {});
  }
}

TEST(KnownDelaysTest, AStrategysOwnWorkIsItsOwn) {
  for (const std::string& name : Strategies()) {
    ExpectMore(name, {Delays{.first_hook = kDelay}, Delays{.first_hook = kDelay}}, {.own = kDelay});
    ExpectMore(name, {Delays{.begin_step = kDelay}, Delays{.begin_step = kDelay}}, {.own = kDelay});
    ExpectMore(name, {Delays{}, Delays{.begin_step = kDelay, .first_hook = kDelay}}, {.own = 2.0 * kDelay});
  }
}

// Computation that takes longer than the floor's is tax; where the floor's takes as long, it costs nothing,
// and the rank that waits has skew.
TEST(KnownDelaysTest, ALateGradientIsTaxUnlessItIsTheFloorsToo) {
  for (const std::string& name : Strategies()) {
    const DelaysOfRanks both = {Delays{.last_gradient = kDelay}, Delays{.last_gradient = kDelay}};
    ExpectMore(name, both, {.tax = kDelay});
    ExpectMore(name, both, {}, both);
    const DelaysOfRanks one = {Delays{}, Delays{.last_gradient = kDelay}};
    ExpectMore(name, one, {.tax = kDelay, .skew = kDelay});
    ExpectMore(name, one, {.skew = kDelay}, one);
  }
}

}  // namespace
}  // namespace gradsync
