// Strategies whose gradients are not exactly the mean: against an independent reference over several steps,
// and against their own equations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "ddp/lossy/largest.h"
#include "ddp/lossy/reference.h"
#include "model/base/test_errors.h"
#include "model/tensor/random.h"

namespace gradsync::ddp {
namespace {

using model::Shape;
using model::Tensor;

// Matrices, a tensor of four dimensions as of a convolution, vectors, one element.
const std::vector<Shape> kShapes = {{40, 30}, {64}, {16, 8, 3, 3}, {1}, {33, 70}, {7, 5}};

// The gradient of parameter p on a rank in a step.
using Gradients = std::function<Tensor(int rank, int step, size_t p)>;

Tensor Normal(const Shape& shape, int rank, int step, size_t p) {
  const Tensor tensor = Tensor::Empty(model::CpuDevice(), shape, model::DType::kF32);
  FillTruncatedNormal(tensor, 1, static_cast<uint64_t>(1000 * rank + step + 1), p);
  return tensor;
}

struct Training {
  std::string strategy;
  std::map<std::string, double, std::less<>> values = {};
  int world_size = 2;
  std::string backend = "local";
  size_t bucket_bytes = 8000;
  std::vector<Shape> shapes = kShapes;
  int num_steps = 4;
  Gradients gradients = {};
  int reset_before = -1;  // this step

  Tensor Gradient(int rank, int step, size_t p) const {
    return gradients ? gradients(rank, step, p) : Normal(shapes[p], rank, step, p);
  }
};

using Floats = std::vector<std::vector<float>>;  // by parameter

// What a step left behind on one rank.
struct Left {
  Floats grads;
  std::map<std::string, std::vector<float>> state;
};

std::vector<Left> TrainRank(const Training& run, comm::ProcessGroup& group) {
  const model::DevicePtr device = model::CpuDevice();
  std::vector<std::unique_ptr<model::Parameter>> owned;
  std::vector<model::Parameter*> params;
  for (size_t p = 0; p < run.shapes.size(); ++p) {
    owned.push_back(std::make_unique<model::Parameter>(
        Join("p", p), Tensor::Zeros(device, run.shapes[p], model::DType::kF32)));
    params.push_back(owned.back().get());
  }
  const auto strategy =
      MakeStrategy(run.strategy, {.params = params,
                                  .group = group,
                                  .options = {.bucket_bytes = run.bucket_bytes, .values = run.values}});
  std::vector<Left> steps;
  for (int step = 0; step < run.num_steps; ++step) {
    if (step == run.reset_before) strategy->Reset();
    for (model::Parameter* param : params) param->ResetGrad();
    strategy->BeginStep();
    for (size_t p = params.size(); p-- > 0;) {
      params[p]->grad().CopyFrom(run.Gradient(group.rank(), step, p));
      params[p]->MarkGrad();
      strategy->OnGradReady(*params[p]);
    }
    strategy->Finish();
    Left& left = steps.emplace_back();
    for (model::Parameter* param : params) left.grads.push_back(param->grad().ToVector<float>());
    for (const auto& [name, tensor] : strategy->State()) left.state[name] = tensor.ToVector<float>();
  }
  return steps;
}

// By rank, then by step. The gradients are bitwise equal on all ranks, or the test fails.
std::vector<std::vector<Left>> Train(const Training& run) {
  const auto groups = comm::MakeGroups(run.backend, run.world_size, std::chrono::seconds(60),
                                       comm::RanksPerHost(run.backend));
  std::vector<std::vector<Left>> ranks(groups.size());
  comm::RunRanks(run.world_size, [&](int rank) {
    ranks[static_cast<size_t>(rank)] = TrainRank(run, *groups[static_cast<size_t>(rank)]);
  });
  for (const std::vector<Left>& steps : ranks) {
    for (size_t step = 0; step < steps.size(); ++step)
      EXPECT_EQ(steps[step].grads, ranks[0][step].grads) << "step " << step;
  }
  return ranks;
}

std::vector<double> Doubles(const Tensor& tensor) {
  const std::vector<float> values = tensor.ToVector<float>();
  return {values.begin(), values.end()};
}

// What the reference makes of all ranks' gradients of a step, by parameter.
std::vector<std::vector<double>> Next(Reference& reference, const Training& run, int step) {
  std::vector<std::vector<double>> result;
  for (size_t p = 0; p < run.shapes.size(); ++p) {
    std::vector<std::vector<double>> ranks;
    for (int rank = 0; rank < run.world_size; ++rank) ranks.push_back(Doubles(run.Gradient(rank, step, p)));
    result.push_back(reference.Next(p, ranks));
  }
  return result;
}

// |found - expected| / |expected|, in Euclidean norms.
double RelativeError(const std::vector<float>& found, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

void ExpectMean(const Training& run, const std::vector<std::vector<Left>>& ranks, int step,
                double tolerance) {
  const auto mean = Next(*MeanReference(false), run, step);
  for (size_t p = 0; p < run.shapes.size(); ++p) {
    EXPECT_LE(RelativeError(ranks[0][static_cast<size_t>(step)].grads[p], mean[p]), tolerance)
        << "step " << step << ", p" << p;
  }
}

struct Variant {
  std::string name;
  std::map<std::string, double, std::less<>> values;
  // Sums have another order and f32 another rounding than the reference. A number of bf16 can then fall to
  // the other side; factors are as well conditioned as random matrices.
  double tolerance;

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

using Case = std::tuple<Variant, comm::TestedWorld, size_t>;  // backend and world size, bucket bytes

class ReferenceTest : public testing::TestWithParam<Case> {};

TEST_P(ReferenceTest, StepsAreThoseOfTheEquation) {
  const auto& [variant, world, bucket_bytes] = GetParam();
  const Training run = {.strategy = variant.name,
                        .values = variant.values,
                        .world_size = world.size,
                        .backend = world.backend,
                        .bucket_bytes = bucket_bytes};
  const std::vector<std::vector<Left>> ranks = Train(run);
  const Traits& traits = TraitsOf(run.strategy);
  ASSERT_NE(traits.reference, nullptr);
  const StrategyOptions options = {.values = run.values};
  const auto reference = MakeReference(traits, {run.shapes, {}, options});
  for (int step = 0; step < run.num_steps; ++step) {
    const auto expected = Next(*reference, run, step);
    for (size_t p = 0; p < run.shapes.size(); ++p) {
      EXPECT_LE(RelativeError(ranks[0][static_cast<size_t>(step)].grads[p], expected[p]), variant.tolerance)
          << "step " << step << ", p" << p;
    }
  }
}

const std::vector<Variant> kVariants = {{"bf16_wire", {}, 3e-4},
                                        {"powersgd", {}, 1e-4},
                                        {"powersgd", {{"rank", 1}}, 1e-4},
                                        {"powersgd", {{"rank", 3}, {"min_compression", 1}}, 1e-4},
                                        {"powersgd", {{"rank", 2}, {"min_compression", 8}}, 1e-4},
                                        {"powersgd", {{"start", 2}}, 1e-4},
                                        // Factors larger than the gradients, which travel whole.
                                        {"powersgd", {{"rank", 1 << 20}}, 1e-6},
                                        {"topk", {{"percent", 100}}, 1e-6},
                                        {"topk", {{"percent", 10}}, 1e-6},
                                        {"topk", {{"percent", 0.5}}, 1e-6},
                                        {"topk", {{"percent", 5}, {"warmup", 1}}, 1e-6},
                                        {"topk", {{"percent", 5}, {"feedback", 0}}, 1e-6}};

// Those with a reference that change gradients.
std::vector<std::string> LossyNames() {
  std::vector<std::string> names = StrategyNames();
  std::erase_if(names, [](const std::string& name) {
    return TraitsOf(name).reference == nullptr || !TraitsOf(name).OptionFor(Option::Role::kPeriod).empty();
  });
  return names;
}

TEST(ReferenceTest, OfEveryStrategyThatHasOne) {
  for (const std::string& name : LossyNames())
    EXPECT_NE(std::ranges::count(kVariants, name, &Variant::name), 0) << name;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [variant, world, bucket_bytes] = info.param;
  std::string name = variant.name;
  for (const auto& [option, value] : variant.values) name += Join("_", option, static_cast<int>(10 * value));
  return Join(name, "_", world.backend, world.size, "_bucket", bucket_bytes);
}

// Equations round a sum once, as backends do that add in the order of ranks.
std::vector<comm::TestedWorld> WorldsOverNetworks() {
  std::vector<comm::TestedWorld> worlds = comm::TestedWorlds({}, {2, 3, 4});
  std::erase_if(worlds, [](const comm::TestedWorld& world) {
    return !comm::TraitsOf(world.backend).reduces_in_rank_order;
  });
  return worlds;
}

INSTANTIATE_TEST_SUITE_P(InMemory, ReferenceTest,
                         testing::Combine(testing::ValuesIn(kVariants),
                                          testing::ValuesIn(comm::TestedWorlds({1, 2, 3, 4}, {})),
                                          testing::Values(size_t{8000}, size_t{25} << 20)),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(OverNetworks, ReferenceTest,
                         testing::Combine(testing::ValuesIn(kVariants),
                                          testing::ValuesIn(WorldsOverNetworks()),
                                          testing::Values(size_t{8000})),
                         CaseName);

// What is not sent is kept: of each rank's gradient and what it had kept before, sent and kept are the sum.
TEST(ErrorFeedbackTest, SentPlusKeptIsTheGradient) {
  for (const std::string& strategy : LossyNames()) {
    const Training run = {.strategy = strategy, .world_size = 3, .num_steps = 5};
    const std::vector<std::vector<Left>> ranks = Train(run);
    for (size_t p = 0; p < run.shapes.size(); ++p) {
      const std::string name = Join("error.p", p);
      if (!ranks[0][0].state.contains(name)) continue;                       // It is sent whole.
      std::vector<double> given(ranks[0][0].grads[p].size()), sent = given;  // means over ranks, of all steps
      for (int step = 0; step < run.num_steps; ++step) {
        const auto mean = Next(*MeanReference(false), run, step);
        const auto s = static_cast<size_t>(step);
        double kept_squares = 0;
        for (size_t i = 0; i < given.size(); ++i) {
          given[i] += mean[p][i];
          sent[i] += ranks[0][s].grads[p][i];
          double kept = 0;
          for (const std::vector<Left>& steps : ranks) kept += steps[s].state.at(name)[i] / 3.0;
          EXPECT_NEAR(sent[i] + kept, given[i], 1e-4) << strategy << " " << name << ", step " << step;
          kept_squares += kept * kept;
        }
        EXPECT_EQ(kept_squares > 0, run.shapes[p].size() > 1) << strategy << " " << name;
      }
    }
  }
}

TEST(ErrorFeedbackTest, ResetForgetsEverything) {
  for (const std::string& strategy : LossyNames()) {
    Training run = {.strategy = strategy, .num_steps = 6, .reset_before = 3};
    const std::string_view start = TraitsOf(strategy).OptionFor(Option::Role::kStart);
    if (!start.empty()) run.values.emplace(start, 1);
    run.gradients = [&](int rank, int step, size_t p) { return Normal(run.shapes[p], rank, step % 3, p); };
    const std::vector<Left> steps = Train(run)[0];
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_EQ(steps[step].grads, steps[step + 3].grads) << strategy;
      EXPECT_EQ(steps[step].state, steps[step + 3].state) << strategy;
    }
  }
}

TEST(LossyStrategiesTest, RefuseF64) {
  const auto groups = comm::MakeGroups("local", 1);
  model::Parameter param("p", Tensor::Zeros(model::CpuDevice(), {3}, model::DType::kF64));
  model::Parameter* const params[] = {&param};
  for (const std::string& strategy : LossyNames()) {
    EXPECT_EQ(
        ErrorOf([&] { MakeStrategy(strategy, {.params = params, .group = *groups[0], .options = {}}); }),
        Join("strategy '", strategy, "': parameter 'p' is f64, expected f32"));
  }
}

// A twin may differ by as much as two roundings to 8 bits do, and not by much more.
TEST(Bf16WireTest, TheTwinsToleranceIsOfItsRounding) {
  const Training run = {.strategy = "bf16_wire", .num_steps = 1};
  const auto mean = Next(*MeanReference(false), run, 0);
  const double error = RelativeError(Train(run)[0][0].grads[0], mean[0]);
  EXPECT_LE(error, TraitsOf("bf16_wire").twin_differs_by);
  EXPECT_GE(error, TraitsOf("bf16_wire").twin_differs_by / 16);
}

TEST(TopKTest, NotANumberArrives) {
  Training run = {.strategy = "topk", .num_steps = 1};
  run.gradients = [&](int rank, int step, size_t p) {
    const Tensor grad = Normal(run.shapes[p], rank, step, p);
    if (rank == 1 && p == 4) grad.data<float>()[1234] = std::nanf("");
    return grad;
  };
  const auto groups = comm::MakeGroups("local", 2);
  comm::RunRanks(2, [&](int rank) {
    const std::vector<Left> steps = TrainRank(run, *groups[static_cast<size_t>(rank)]);
    EXPECT_TRUE(std::isnan(steps[0].grads[4][1234]));
  });
}

TEST(TakeLargestTest, TakesTheFirstOfEqualElements) {
  std::vector<float> elements = {1, -3, 2, 3, 0, -2, 2, 3};
  const Tensor from = Tensor::From<float>(model::CpuDevice(), {8}, std::span<const float>(elements));
  const Tensor scratch = Tensor::Empty(model::CpuDevice(), {8}, model::DType::kF32);
  std::vector<float> values(5);
  std::vector<int32_t> indices(5);
  TakeLargest(from, scratch, 5, values.data(), indices.data());
  EXPECT_EQ(values, (std::vector<float>{-3, 2, 3, -2, 3}));
  EXPECT_EQ(indices, (std::vector<int32_t>{1, 2, 3, 5, 7}));
  EXPECT_EQ(from.ToVector<float>(), (std::vector<float>{1, 0, 0, 0, 0, 0, 2, 0}));
}

// A sum of two products u v', with the same v on all ranks and in all steps, so that the rank of their means
// and sums is 2 as well.
Tensor OfRankTwo(const Shape& shape, int rank, int step, size_t p) {
  const int64_t rows = shape[0], columns = model::Numel(shape) / rows;
  const Tensor grad = Tensor::Zeros(model::CpuDevice(), shape, model::DType::kF32);
  for (int term = 0; term < 2; ++term) {
    const std::vector<float> u = Normal({rows}, 50 + rank, 10 * step + term, p).ToVector<float>();
    const std::vector<float> v = Normal({columns}, 40, term, p).ToVector<float>();
    for (int64_t i = 0; i < grad.numel(); ++i)
      grad.data<float>()[i] += u[static_cast<size_t>(i / columns)] * v[static_cast<size_t>(i % columns)];
  }
  return grad;
}

TEST(PowerSgdTest, FactorsOfTheSameRankAreTheMean) {
  for (const int rank : {2, 3}) {
    Training run = {.strategy = "powersgd", .values = {{"rank", static_cast<double>(rank)}}, .world_size = 3};
    run.gradients = [&](int r, int step, size_t p) { return OfRankTwo(run.shapes[p], r, step, p); };
    const std::vector<std::vector<Left>> ranks = Train(run);
    for (int step = 0; step < run.num_steps; ++step) ExpectMean(run, ranks, step, 1e-4);
  }
}

TEST(PowerSgdTest, RecoversFromAGradientOfZeros) {
  Training run = {.strategy = "powersgd", .values = {{"rank", 2}}, .num_steps = 3};
  run.gradients = [&](int, int step, size_t p) {
    return step == 0 ? Tensor::Zeros(model::CpuDevice(), run.shapes[p], model::DType::kF32)
                     : OfRankTwo(run.shapes[p], 0, 1, p);
  };
  const std::vector<Left> steps = Train(run)[0];
  for (size_t p = 0; p < run.shapes.size(); ++p) {
    std::vector<double> twice = Doubles(run.Gradient(0, 1, p));
    for (double& value : twice) value *= 2;
    std::vector<float> sent = steps[1].grads[p];
    for (size_t i = 0; i < sent.size(); ++i) sent[i] += steps[2].grads[p][i];
    EXPECT_LE(RelativeError(sent, twice), 1e-4) << "p" << p;
  }
}

// During backward: what each strategy sends before the last gradient is there, and how many bytes.
class EventGroup : public comm::GroupDecorator {
 public:
  EventGroup(comm::ProcessGroup& inner, std::vector<std::string>& events)
      : GroupDecorator(inner), events_(events) {}
  comm::Work Issue(comm::Request request) override {
    events_.push_back(Join(comm::Name(request.collective), " ", request.bytes()));
    return GroupDecorator::Issue(std::move(request));
  }

 private:
  std::vector<std::string>& events_;
};

// What the plan of the first step says.
std::vector<std::string> PlannedFirst(const std::string& strategy,
                                      const std::map<std::string, double, std::less<>>& values) {
  std::vector<std::unique_ptr<model::Parameter>> owned;
  std::vector<model::Parameter*> params;
  for (size_t p = 0; p < kShapes.size(); ++p) {
    owned.push_back(std::make_unique<model::Parameter>(
        Join("p", p), Tensor::Zeros(model::CpuDevice(), kShapes[p], model::DType::kF32)));
    params.push_back(owned.back().get());
  }
  const auto groups = comm::MakeGroups("local", 2);
  const auto made = MakeStrategy(
      strategy, {.params = params, .group = *groups[0], .options = {.bucket_bytes = 8000, .values = values}});
  std::vector<std::string> planned;
  for (const Bucket& bucket : made->plan().buckets)
    planned.push_back(Join(comm::Name(bucket.collective), " ", bucket.sent_bytes()));
  return planned;
}

TEST(LossyScheduleTest, SendsDuringBackwardWhatThePlanSays) {
  // powersgd sends 40 x 30, 33 x 70 and 16 x 72 as factors of rank 4: 4 (40 + 30), 4 (33 + 70), 4 (16 + 72)
  // elements. topk sends 12, 24, 12 and 1 elements of 8 bytes of the matrices, and vectors of 64 and 1 whole.
  const std::map<std::string, std::vector<std::string>> expected = {
      {"bf16_wire",
       {"grad 5", "all_reduce 70", "grad 4", "all_reduce 4620", "grad 3", "grad 2", "all_reduce 2306",
        "grad 1", "grad 0", "all_reduce 2528"}},
      {"powersgd",
       {"grad 5", "all_reduce 140", "grad 4", "all_reduce 528", "grad 3", "grad 2", "all_reduce 260",
        "grad 1", "grad 0", "all_reduce 896", "all_reduce 2752"}},
      {"topk",
       {"grad 5", "all_gather 16", "grad 4", "all_gather 384", "grad 3", "grad 2", "all_gather 200", "grad 1",
        "grad 0", "all_gather 704"}}};
  for (const auto& [strategy, events_of] : expected) {
    std::vector<std::string> events;
    Training run = {.strategy = strategy, .num_steps = 1};
    run.gradients = [&](int rank, int step, size_t p) {
      if (rank == 0) events.push_back(Join("grad ", p));
      return Normal(run.shapes[p], rank, step, p);
    };
    const auto groups = comm::MakeGroups("local", 2);
    EventGroup logged(*groups[0], events);
    comm::RunRanks(2, [&](int rank) { TrainRank(run, rank == 0 ? logged : *groups[1]); });
    EXPECT_EQ(events, events_of) << strategy;
    EXPECT_TRUE(TraitsOf(strategy).overlaps);
    std::vector<std::string> sent;
    for (const std::string& event : events) {
      if (!event.starts_with("grad")) sent.push_back(event);
    }
    EXPECT_EQ(sent, PlannedFirst(strategy, {})) << strategy;
  }
}

// First every gradient where it is, and then what is sent without such a start.
TEST(LossyScheduleTest, StartsExactly) {
  for (const std::string& strategy : LossyNames()) {
    const std::string option(TraitsOf(strategy).OptionFor(Option::Role::kStart));
    if (option.empty()) continue;
    const auto events_of = [&](double start, int num_steps) {
      std::vector<std::string> events;
      const Training run = {.strategy = strategy, .values = {{option, start}}, .num_steps = num_steps};
      const auto groups = comm::MakeGroups("local", 2);
      EventGroup logged(*groups[0], events);
      comm::RunRanks(2, [&](int rank) { TrainRank(run, rank == 0 ? logged : *groups[1]); });
      return events;
    };
    std::vector<std::string> expected;
    for (size_t p = kShapes.size(); p-- > 0;)
      expected.push_back(Join("all_reduce ", 4 * model::Numel(kShapes[p])));
    EXPECT_EQ(PlannedFirst(strategy, {{option, 2}}), expected) << strategy;
    for (size_t p = kShapes.size(); p-- > 0;)
      expected.push_back(Join("all_reduce ", 4 * model::Numel(kShapes[p])));
    EXPECT_EQ(events_of(2, 2), expected) << strategy;
    const std::vector<std::string> after = events_of(0, 1);
    expected.insert(expected.end(), after.begin(), after.end());
    EXPECT_EQ(events_of(2, 3), expected) << strategy;
  }
}

}  // namespace
}  // namespace gradsync::ddp
