// Strategies that average weights every few steps: against an independent reference that simulates all ranks,
// and against equations with a known result.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/queue/recording_process_group.h"
#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "ddp/lossy/reference.h"
#include "model/optimizer.h"

namespace gradsync::ddp {
namespace {

using model::Tensor;

// Every rank r minimises the sum over its elements i of a_i / 2 (w_i - c_ri)^2, from weights that are the
// same on all: the gradient is a_i (w_i - c_ri).
constexpr int64_t kNumels[] = {5, 1, 300};

double Curvature(size_t p, int64_t i) {
  return 0.5 + 0.1 * static_cast<double>((i + static_cast<int64_t>(p)) % 7);
}
double Minimum(int rank, size_t p, int64_t i) {
  return std::sin(1.0 + 3.0 * rank + static_cast<double>(p) + 0.1 * static_cast<double>(i));
}
double Start(size_t p, int64_t i) { return 2 + std::cos(static_cast<double>(i) + static_cast<double>(p)); }
double GradientAt(int rank, size_t p, int64_t i, double weight) {
  return Curvature(p, i) * (weight - Minimum(rank, p, i));
}

using Values = std::vector<std::vector<double>>;  // by parameter

Values Starts() {
  Values values;
  for (size_t p = 0; p < std::size(kNumels); ++p) {
    std::vector<double>& of = values.emplace_back();
    for (int64_t i = 0; i < kNumels[p]; ++i) of.push_back(Start(p, i));
  }
  return values;
}

struct Training {
  std::string strategy;
  std::map<std::string, double, std::less<>> values = {};
  int world_size = 2;
  std::string backend = "local";
  double learning_rate = 0.1;
  bool adamw = false;  // the inner optimizer has a state; else it is SGD
  int num_steps = 8;
  int reset_before = -1;  // this step, which starts from the first weights again
};

// So large an eps that a gradient near 0 is not magnified: f32 and f64 see the same one.
model::AdamW::Options AdamWOf(const Training& run) {
  return {.learning_rate = run.learning_rate, .beta1 = 0.8, .beta2 = 0.9, .eps = 0.5, .weight_decay = 0.1};
}

// Weights after each step, by parameter.
using Trajectory = std::vector<std::vector<std::vector<float>>>;

Trajectory TrainRank(const Training& run, comm::ProcessGroup& group) {
  const model::DevicePtr device = model::CpuDevice();
  const Values starts = Starts();
  std::vector<std::unique_ptr<model::Parameter>> owned;
  std::vector<model::Parameter*> params;
  const auto to_start = [&] {
    for (size_t p = 0; p < starts.size(); ++p)
      for (size_t i = 0; i < starts[p].size(); ++i)
        params[p]->MutableValue().data<float>()[i] = static_cast<float>(starts[p][i]);
  };
  for (size_t p = 0; p < starts.size(); ++p) {
    owned.push_back(std::make_unique<model::Parameter>(
        Join("p", p), Tensor::Empty(device, {kNumels[p]}, model::DType::kF32)));
    params.push_back(owned.back().get());
  }
  to_start();
  std::unique_ptr<model::Optimizer> inner;
  if (run.adamw) {
    inner = std::make_unique<model::AdamW>(params, AdamWOf(run));
  } else {
    inner = std::make_unique<model::Sgd>(params, model::Sgd::Options{.learning_rate = run.learning_rate});
  }
  model::Optimizer& optimizer = *inner;
  const auto strategy = MakeStrategy(
      run.strategy,
      {.params = params, .group = group, .options = {.bucket_bytes = 100, .values = run.values}});
  Trajectory trajectory;
  for (int step = 0; step < run.num_steps; ++step) {
    if (step == run.reset_before) {
      to_start();
      optimizer.Reset();
      strategy->Reset();
    }
    for (model::Parameter* param : params) param->ResetGrad();
    strategy->BeginStep();
    for (size_t p = params.size(); p-- > 0;) {
      for (int64_t i = 0; i < kNumels[p]; ++i) {
        params[p]->grad().data<float>()[i] =
            static_cast<float>(GradientAt(group.rank(), p, i, params[p]->value().data<float>()[i]));
      }
      params[p]->MarkGrad();
      strategy->OnGradReady(*params[p]);
    }
    strategy->Finish();
    strategy->Update(optimizer);
    auto& weights = trajectory.emplace_back();
    for (model::Parameter* param : params) weights.push_back(param->value().ToVector<float>());
  }
  return trajectory;
}

std::vector<Trajectory> Train(const Training& run) {  // by rank
  const auto groups = comm::MakeGroups(run.backend, run.world_size);
  std::vector<Trajectory> ranks(groups.size());
  comm::RunRanks(run.world_size, [&](int rank) {
    ranks[static_cast<size_t>(rank)] = TrainRank(run, *groups[static_cast<size_t>(rank)]);
  });
  return ranks;
}

void ExpectNear(const std::vector<std::vector<float>>& found, const Values& expected, double tolerance,
                const std::string& where) {
  for (size_t p = 0; p < expected.size(); ++p) {
    for (size_t i = 0; i < expected[p].size(); ++i)
      ASSERT_NEAR(found[p][i], expected[p][i], tolerance) << where << ", p" << p << "[" << i << "]";
  }
}

// Simulates all ranks in f64. The inner optimizer is AdamW, whose state is never averaged or forgotten.
// `reference` acts after each period. Returns each rank's weights after each step.
std::vector<std::vector<Values>> Simulate(const Training& run, Reference& reference, int period) {
  const auto num_ranks = static_cast<size_t>(run.world_size);
  const model::AdamW::Options o = AdamWOf(run);
  std::vector<Values> weights(num_ranks, Starts()), means = weights;
  for (Values& of_rank : means)
    for (std::vector<double>& of : of_rank) std::fill(of.begin(), of.end(), 0);
  std::vector<Values> squares = means;
  std::vector<std::vector<Values>> ranks(num_ranks);
  for (int step = 0; step < run.num_steps; ++step) {
    for (size_t r = 0; r < num_ranks; ++r) {
      for (size_t p = 0; p < weights[r].size(); ++p) {
        for (size_t i = 0; i < weights[r][p].size(); ++i) {
          double &w = weights[r][p][i], &mean = means[r][p][i], &square = squares[r][p][i];
          const double grad = GradientAt(static_cast<int>(r), p, static_cast<int64_t>(i), w);
          mean = o.beta1 * mean + (1 - o.beta1) * grad;
          square = o.beta2 * square + (1 - o.beta2) * grad * grad;
          w -= o.learning_rate * o.weight_decay * w;
          w -= o.learning_rate * mean / (1 - std::pow(o.beta1, step + 1)) /
               (std::sqrt(square / (1 - std::pow(o.beta2, step + 1))) + o.eps);
        }
      }
    }
    for (size_t p = 0; p < std::size(kNumels) && (step + 1) % period == 0; ++p) {
      std::vector<std::vector<double>> of_ranks;
      for (const Values& of_rank : weights) of_ranks.push_back(of_rank[p]);
      const std::vector<double> next = reference.Next(p, of_ranks);
      for (Values& of_rank : weights) of_rank[p] = next;
    }
    for (size_t r = 0; r < num_ranks; ++r) ranks[r].push_back(weights[r]);
  }
  return ranks;
}

std::vector<std::string> PeriodicNames() {
  std::vector<std::string> names = StrategyNames();
  std::erase_if(
      names, [](const std::string& name) { return TraitsOf(name).OptionFor(Option::Role::kPeriod).empty(); });
  return names;
}

struct Variant {
  std::string name, strategy;
  std::map<std::string, double, std::less<>> values;
};

// Every strategy with its defaults, and one whose outer step takes the mean as it is.
std::vector<Variant> Variants() {
  std::vector<Variant> variants = {{"diloco_of_means", "diloco", {{"outer_rate", 1}, {"outer_momentum", 0}}}};
  for (const std::string& name : PeriodicNames()) variants.push_back({name, name, {}});
  return variants;
}

using Case = std::tuple<Variant, comm::TestedWorld, int>;  // variant, backend and world size, period

class PeriodicTest : public testing::TestWithParam<Case> {};

TEST_P(PeriodicTest, WeightsAreThoseOfTheEquation) {
  const auto& [variant, world, period] = GetParam();
  Training run = {.strategy = variant.strategy,
                  .values = variant.values,
                  .world_size = world.size,
                  .backend = world.backend,
                  .adamw = true,
                  .num_steps = 4 * period + 1};
  run.values["period"] = period;
  const StrategyOptions options = {.values = run.values};
  const auto reference =
      TraitsOf(run.strategy).reference({{}, [](size_t p) { return Starts()[p]; }, options});
  const std::vector<Trajectory> ranks = Train(run);
  const std::vector<std::vector<Values>> expected = Simulate(run, *reference, period);
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t step = 0; step < ranks[r].size(); ++step) {
      ExpectNear(ranks[r][step], expected[r][step], 2e-5, Join("rank ", r, ", step ", step));
      const bool ends_period = (step + 1) % static_cast<size_t>(period) == 0;
      if (r == 0) continue;
      EXPECT_EQ(ranks[r][step] == ranks[0][step], ends_period) << "rank " << r << ", step " << step;
    }
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [variant, world, period] = info.param;
  return Join(variant.name, "_", world.backend, world.size, "_period", period);
}

INSTANTIATE_TEST_SUITE_P(InMemory, PeriodicTest,
                         testing::Combine(testing::ValuesIn(Variants()),
                                          testing::ValuesIn(comm::TestedWorlds({1, 2, 3, 4}, {})),
                                          testing::Values(1, 3)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OverNetworks, PeriodicTest,
                         testing::Combine(testing::ValuesIn(Variants()),
                                          testing::ValuesIn(comm::TestedWorlds({}, {2, 3})),
                                          testing::Values(3)),
                         CaseName);

// On a quadratic with minima c_r, H steps of plain SGD bring w to c_r + q (w - c_r) with q = (1 - rate a)^H,
// and ranks on average to c + q (w - c). So d = (1 - q) (w - c), and with Nesterov momentum the distance e =
// w - c follows v' = momentum v + (1 - q) e, e' = e - outer_rate ((1 - q) e + momentum v').
TEST(DilocoTest, FollowsTheKnownTrajectoryOfAQuadratic) {
  const Training run = {
      .strategy = "diloco", .values = {{"period", 4}}, .world_size = 2, .num_steps = 4 * 12};
  const std::vector<Trajectory> ranks = Train(run);
  for (size_t p = 0; p < std::size(kNumels); ++p) {
    for (int64_t i = 0; i < kNumels[p]; ++i) {
      const double center = (Minimum(0, p, i) + Minimum(1, p, i)) / 2;
      const double progress = 1 - std::pow(1 - run.learning_rate * Curvature(p, i), 4);
      const double start = Start(p, i) - center;
      double e = start, v = 0;
      for (size_t period = 0; period < 12; ++period) {
        v = 0.9 * v + progress * e;
        e -= 0.7 * (progress * e + 0.9 * v);
        const float found = ranks[0][4 * period + 3][p][static_cast<size_t>(i)];
        ASSERT_NEAR(found, center + e, 5e-5) << "period " << period << ", p" << p << "[" << i << "]";
        if (period > 0) continue;
        EXPECT_LT(std::abs(found - center), std::abs(start));  // downhill
      }
    }
  }
}

TEST(PeriodicResetTest, BeginsANewPeriodAndForgetsWhatWas) {
  for (const std::string& strategy : PeriodicNames()) {
    const Training run = {
        .strategy = strategy, .values = {{"period", 3}}, .adamw = true, .num_steps = 14, .reset_before = 7};
    const Trajectory steps = Train(run)[1];
    for (size_t step = 0; step < 7; ++step)
      EXPECT_EQ(steps[step], steps[step + 7]) << strategy << ", " << step;
  }
}

// Nothing is sent but once in a period, after the update: the bytes of the weights, as the plan says.
TEST(PeriodicScheduleTest, SendsTheWeightsOnceInAPeriod) {
  for (const std::string& strategy : PeriodicNames()) {
    auto groups = comm::MakeGroups("local", 2);
    comm::RecordingProcessGroup recorded(std::move(groups[0]));
    const Training run = {.strategy = strategy, .values = {{"period", 5}}, .num_steps = 14};
    comm::RunRanks(2, [&](int rank) { TrainRank(run, rank == 0 ? recorded : *groups[1]); });
    std::vector<std::string> sent;
    for (const auto& entry : recorded.Finish())
      sent.push_back(Join(comm::Name(entry.collective), " ", entry.bytes));
    // Buckets of 100 bytes, last first: 300 elements alone, and 5 and 1 together. Two periods.
    const std::vector<std::string> expected = {"all_reduce 1200", "all_reduce 24", "all_reduce 1200",
                                               "all_reduce 24"};
    EXPECT_EQ(sent, expected) << strategy;
    EXPECT_FALSE(TraitsOf(strategy).overlaps);
  }
}

}  // namespace
}  // namespace gradsync::ddp
