// Every strategy on the CPU.
#include <string>
#include <tuple>

#include "comm/testing/local_process_group.h"
#include "ddp/equivalence_suite.h"

namespace gradsync::ddp {
namespace {

const auto kAveragingStrategies = testing::ValuesIn(AveragingStrategies());

using Case = std::tuple<Tested, comm::TestedWorld, size_t>;  // strategy, backend and world size, bucket bytes

std::vector<model::DevicePtr> Cpus(int world_size) {
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < world_size; ++rank) devices.push_back(model::CpuDevice());
  return devices;
}

class EquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceTest, EqualsOneProcessOnTheWholeBatch) {
  const auto& [tested, world, bucket_bytes] = GetParam();
  CheckEquivalence(tested, bucket_bytes, world.backend, Cpus(world.size));
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [tested, world, bucket_bytes] = info.param;
  return Join(tested.name(), "_", world.backend, world.size, "_bucket", bucket_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    AllStrategies, EquivalenceTest,
    testing::Combine(kAveragingStrategies, testing::ValuesIn(comm::TestedWorlds({1, 2, 3, 4, 5, 8}, {})),
                     testing::Values(size_t{1}, size_t{4000}, size_t{300000}, size_t{25} << 20)),
    CaseName);

// Over a network, or on two hosts.
INSTANTIATE_TEST_SUITE_P(AllStrategiesOverNetworks, EquivalenceTest,
                         testing::Combine(kAveragingStrategies,
                                          testing::ValuesIn(comm::TestedWorlds({}, {3})),
                                          testing::Values(size_t{4000}, size_t{25} << 20)),
                         CaseName);

std::vector<comm::TestedWorld> WorldsOfHosts() {
  std::vector<comm::TestedWorld> worlds = comm::TestedWorlds({}, {3});
  std::erase_if(worlds,
                [](const comm::TestedWorld& world) { return comm::RanksPerHost(world.backend) == 0; });
  if (comm::OuterAddress().empty()) return worlds;
  for (size_t i = worlds.size(); i-- > 0;) worlds.push_back({worlds[i].backend, 6});
  return worlds;
}

// Each of two or three hosts has all parts.
INSTANTIATE_TEST_SUITE_P(WithinHosts, EquivalenceTest,
                         testing::Combine(testing::Values(Tested{"zero1", {{"within", 1}}},
                                                          Tested{"zero1", {{"gather", 1}, {"within", 1}}},
                                                          Tested{"zero3", {{"within", 1}}},
                                                          Tested{"zero3", {{"shared", 1}, {"within", 1}}}),
                                          testing::ValuesIn(WorldsOfHosts()),
                                          testing::Values(size_t{4000}, size_t{25} << 20)),
                         CaseName);

// With an optimizer that has state.
class AdamWEquivalenceTest : public testing::TestWithParam<Tested> {};

TEST_P(AdamWEquivalenceTest, EqualsOneProcessBitForBit) {
  for (const auto& [backend, size] : comm::TestedWorlds({1, 2, 3, 4}, {1, 2, 3, 4}))
    CheckEquivalence(GetParam(), 300000, backend, Cpus(size), {.num_steps = 4, .adamw = true});
}

TEST_P(AdamWEquivalenceTest, ClipsOrRefuses) {
  const Graph clipped = {.adamw = true, .grad_scale = 0.3};
  if (GetParam().traits().can_clip) return CheckEquivalence(GetParam(), 300000, "local", Cpus(3), clipped);
  const auto groups = comm::MakeLocalGroups(1);
  EXPECT_THROW(Train(GetParam(), 300000, *groups[0], model::CpuDevice(), clipped), InvalidInput);
}

// Forward reads a copy, which must follow each change of the weights, whoever makes it.
TEST_P(AdamWEquivalenceTest, ForwardReadsNoStaleCopy) {
  for (const auto& [backend, size] : comm::TestedWorlds({3}, {})) {
    for (const bool adamw : {false, true}) {
      CheckEquivalence(GetParam(), 300000, backend, Cpus(size),
                       {.num_steps = 4, .adamw = adamw, .copy = model::Parameter::Copy::kBF16});
    }
  }
}

// The sum of squares of the mean gradient, which a sharded strategy adds up over ranks.
void CheckNorm(const Tested& tested, const std::vector<std::unique_ptr<comm::ProcessGroup>>& groups) {
  const auto world_size = static_cast<int>(groups.size());
  double expected = 0;
  for (const std::vector<float>& grad : SingleProcess(world_size, {.num_steps = 1}).grads) {
    for (const float g : grad) expected += static_cast<double>(g) * g;
  }
  comm::RunRanks(world_size, [&](int rank) {
    const auto model = MakeModel({}, model::CpuDevice());
    const auto strategy =
        MakeStrategy(tested.strategy, {.params = model->params(),
                                       .group = *groups[static_cast<size_t>(rank)],
                                       .options = {.bucket_bytes = 300000, .values = tested.values}});
    strategy->BeginStep();
    model::Backward(TestModel::Scaled(model->Loss(rank, 0), strategy->loss_scale()), model->params(),
                    [&](model::Parameter& p) { strategy->OnGradReady(p); });
    strategy->Finish();
    EXPECT_NEAR(strategy->SquaredNorm(model->params()), expected, 1e-9 * expected);
  });
}

TEST_P(AdamWEquivalenceTest, NormsAreThoseOfTheMean) {
  if (!GetParam().traits().can_clip) GTEST_SKIP();
  CheckNorm(GetParam(), comm::MakeLocalGroups(3));
}

// A host's ranks have all parts, each once.
TEST(WithinHostsTest, NormsAreThoseOfTheMean) {
  if (comm::OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  CheckNorm({"zero1", {{"within", 1}}},
            comm::MakeGroups("hierarchical", Cpus(4), std::chrono::seconds(60), 2));
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, AdamWEquivalenceTest, kAveragingStrategies,
                         [](const auto& tested) { return tested.param.name(); });
INSTANTIATE_TEST_SUITE_P(InForward, AdamWEquivalenceTest,
                         testing::Values(Tested{"zero1", {{"gather", 1}}}, Tested{"zero1", {{"within", 1}}}),
                         [](const auto& tested) { return tested.param.name(); });

// Muon, whose unit is the matrix: wide, tall and square ones, one that no other is like, vectors, a table.
// Gradients are integers and their means exact, so that the iteration gets the same bits, and makes the same.
class MuonEquivalenceTest : public testing::TestWithParam<Tested> {
 protected:
  static Graph Matrices() {
    Graph graph = {.numels = {320, 960, 960, 576, 7, 576, 576, 165, 960, 576, 9},
                   .shapes = {{40, 8},
                              {24, 40},
                              {40, 24},
                              {24, 24},
                              {7},
                              {24, 24},
                              {24, 24},
                              {33, 5},
                              {24, 40},
                              {24, 24},
                              {9}},
                   .tables = {0},
                   .muon = true};
    return graph;
  }
};

TEST_P(MuonEquivalenceTest, EqualsOneProcessBitForBit) {
  for (const auto& [backend, size] : comm::TestedWorlds({1, 2, 3, 4, 5, 8}, {3})) {
    for (const size_t bucket_bytes : {size_t{8000}, size_t{25} << 20})
      CheckEquivalence(GetParam(), bucket_bytes, backend, Cpus(size), Matrices());
  }
}

// Several passes, a scale as of clipping, a matrix with two uses, another that is unused by some ranks.
TEST_P(MuonEquivalenceTest, EqualsOneProcessOverPassesWithTiedFrozenAndUnusedMatrices) {
  Graph graph = Matrices();
  graph.uses = [](int rank, int step) {
    std::vector<size_t> uses = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 3, 0};
    if ((rank + step) % 2 == 0) uses.erase(uses.begin() + 2);
    return uses;
  };
  graph.frozen = {5, 10};
  graph.num_passes = 2;
  if (GetParam().traits().can_clip) graph.grad_scale = 0.3;
  for (const auto& [backend, size] : comm::TestedWorlds({1, 2, 3, 5}, {})) {
    for (const auto copy : {model::Parameter::Copy::kNone, model::Parameter::Copy::kBF16}) {
      graph.copy = copy;
      CheckEquivalence(GetParam(), 8000, backend, Cpus(size), graph);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, MuonEquivalenceTest, testing::ValuesIn(StrategiesOfMatrices()),
                         [](const auto& tested) { return tested.param.name(); });

TEST(DividedMatricesTest, AreRefusedByMuon) {
  const auto groups = comm::MakeLocalGroups(2);
  for (const std::string& name : StrategyNames()) {
    if (!TraitsOf(name).shards_state || !TraitsOf(name).divides_matrices) continue;
    const TestModel model({6});
    const model::Muon muon(model.params(), {});
    const StrategyContext context = {
        .params = model.params(), .group = *groups[0], .options = {}, .optimizer = &muon};
    EXPECT_THROW(MakeStrategy(name, context), InvalidInput) << name;
  }
}

// A parameter as PyTorch's DistributedDataParallel takes it: shared by several uses, whose gradients are
// added before they are averaged; unused, by all ranks or by some, whose share of the mean is zero (PyTorch
// calls that find_unused_parameters, and leaves the gradient alone where no rank has one).
class UncommonParametersTest : public testing::TestWithParam<Tested> {
 protected:
  static void Check(const Graph& graph) {
    for (const int world_size : {2, 3}) {
      for (const size_t bucket_bytes : {size_t{4000}, size_t{25} << 20}) {
        CheckEquivalence(GetParam(), bucket_bytes, "local", Cpus(world_size), graph);
      }
    }
  }
  // Without another one on each rank and in each step, the first step's among them.
  static std::vector<size_t> AllButOne(int rank, int step) {
    std::vector<size_t> uses = {0, 1, 2, 3, 4, 5, 6, 7};
    uses.erase(uses.begin() + (3 * rank + step) % 8);
    return uses;
  }
};

TEST_P(UncommonParametersTest, Shared) {
  Check({.uses = [](int, int) { return std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 3, 0}; }});
}

TEST_P(UncommonParametersTest, UnusedByAll) {
  Check({.uses = [](int, int) { return std::vector<size_t>{0, 1, 3, 4, 6}; }});
}

TEST_P(UncommonParametersTest, UnusedBySome) { Check({.uses = AllButOne}); }

TEST_P(UncommonParametersTest, OverSeveralPasses) {
  const Graph graph = {.uses = AllButOne, .num_steps = 2, .num_passes = 4};
  for (const size_t bucket_bytes : {size_t{4000}, size_t{25} << 20})
    CheckEquivalence(GetParam(), bucket_bytes, "local", Cpus(3), graph);
}

TEST_P(UncommonParametersTest, Frozen) { Check({.frozen = {0, 3, 5}}); }

INSTANTIATE_TEST_SUITE_P(AllStrategies, UncommonParametersTest, kAveragingStrategies,
                         [](const auto& tested) { return tested.param.name(); });

// Gradients whose rows are mostly zero, of which operations say so.
class FewRowsTest : public UncommonParametersTest {
 protected:
  // The same number for each rank and step, of which some are the same, for two parameters of the midst.
  static std::optional<std::vector<int32_t>> Few(int rank, int step, int use) {
    if (use != 3 && use != 5) return std::nullopt;
    std::vector<int32_t> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(i * i * (step + 1) % 601 + rank * 4);
    return rows;
  }
};

TEST_P(FewRowsTest, OfRanksAndSteps) {
  for (const auto& [backend, size] : comm::TestedWorlds({1, 3, 4, 8}, {3}))
    CheckEquivalence(GetParam(), 300000, backend, Cpus(size), {.rows = Few, .num_steps = 4});
}

TEST_P(FewRowsTest, NoneOnOneRank) {
  Check({.rows =
             [](int rank, int step, int use) {
               auto rows = Few(rank, step, use);
               if (rows && rank == 1) rows->clear();
               return rows;
             },
         .num_steps = 4});
}

TEST_P(FewRowsTest, MoreAfterTheFirstStep) {
  Check({.rows =
             [](int rank, int step, int use) {
               auto rows = Few(rank, step, use);
               if (rows && rank == 1 && step == 2)
                 for (int i = 0; i < 40; ++i) rows->push_back(1000 + i);
               return rows;
             },
         .num_steps = 5});
}

TEST_P(FewRowsTest, AllInOneStepOfOneRank) {
  Check({.rows = [](int rank, int step,
                    int use) { return rank == 1 && step == 2 ? std::nullopt : Few(rank, step, use); },
         .num_steps = 5});
}

// As a weight that is tied to the output layer is; or not in the step in which ranks agree.
TEST_P(FewRowsTest, UsedByAnotherOperationToo) {
  for (const int first_step : {0, 1, 2}) {
    Check({.uses =
               [=](int, int step) {
                 std::vector<size_t> uses = {0, 1, 2, 3, 4, 5, 6, 7};
                 if (step >= first_step) uses.push_back(3);
                 return uses;
               },
           .rows = Few,
           .num_steps = 4});
  }
}

TEST_P(FewRowsTest, UnusedBySome) {
  Check({.uses =
             [](int rank, int step) {
               std::vector<size_t> uses = {0, 1, 2, 3, 4, 5, 6, 7};
               if (rank != step % 3) uses[5] = 3;
               return uses;
             },
         .rows = Few,
         .num_steps = 5});
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, FewRowsTest, kAveragingStrategies,
                         [](const auto& tested) { return tested.param.name(); });
INSTANTIATE_TEST_SUITE_P(ByRows, FewRowsTest,
                         testing::Values(Tested{"core", {{"rows", 1}}}, Tested{"core_update", {{"rows", 1}}}),
                         [](const auto& tested) { return tested.param.name(); });

// Weights that are gathered: so many units ahead, in one piece, or once for forward and backward.
class GatheredTest : public UncommonParametersTest {};

TEST_P(GatheredTest, EqualsOneProcessOnTheWholeBatch) {
  for (const int world_size : {1, 2, 3, 4, 5, 8}) {
    for (const size_t bytes : {size_t{1}, size_t{400}}) {
      for (const bool skips : {false, true}) {
        for (const auto copy : {model::Parameter::Copy::kNone, model::Parameter::Copy::kBF16}) {
          const auto uses = [=](int rank, int step) {
            std::vector<size_t> all = {0, 1, 2, 2, 3, 4, 5, 6, 7};
            if (skips)
              all.erase(all.begin() + (3 * rank + step) % 8, all.begin() + (3 * rank + step) % 8 + 2);
            return all;
          };
          CheckEquivalence(GetParam(), bytes, "shm", Cpus(world_size),
                           {.numels = {5, 100, 1, 700, 33, 3000, 16, 17},
                            .uses = uses,
                            .num_steps = 4,
                            .num_passes = skips ? 2 : 1,
                            .copy = copy});
        }
        // Norms have no copy in bf16.
        CheckEquivalence(GetParam(), bytes, "shm", Cpus(world_size),
                         {.numels = {5, 100, 1, 700, 33, 3000, 16, 17},
                          .num_passes = skips ? 2 : 1,
                          .copy = model::Parameter::Copy::kBF16,
                          .without_copy = {1, 7}});
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Prefetch, GatheredTest,
                         testing::Values(Tested{"zero3", {{"prefetch", 0}}}, Tested{"zero3"},
                                         Tested{"zero3", {{"prefetch", 2}}}, Tested{"zero3", {{"keep", 1}}},
                                         Tested{"zero3", {{"unit", 1}}}, Tested{"zero3", {{"shared", 1}}},
                                         Tested{"zero1", {{"gather", 1}}}),
                         [](const auto& tested) { return tested.param.name(); });

INSTANTIATE_TEST_SUITE_P(InParts, UncommonParametersTest,
                         testing::Values(Tested{"zero2", {{"accumulate_parts", 1}}},
                                         Tested{"zero1", {{"gather", 1}}}),
                         [](const auto& tested) { return tested.param.name(); });

// Each rank uses other parameters, in another order, and touches few rows of two of them, in two passes.
class CombinationTest : public FewRowsTest {};

TEST_P(CombinationTest, EqualsOneProcessOnTheWholeBatch) {
  const Graph graph = {.uses =
                           [](int rank, int step) {
                             std::vector<size_t> uses = {0, 7, 2, 3, 4, 5, 1, 6};
                             if (rank == step % 3) uses[6] = 3;
                             return uses;
                           },
                       .rows = Few,
                       .num_passes = 2};
  for (const size_t bucket_bytes : {size_t{4000}, size_t{25} << 20})
    CheckEquivalence(GetParam(), bucket_bytes, "local", Cpus(3), graph);
}

INSTANTIATE_TEST_SUITE_P(OfEverySwitch, CombinationTest, testing::ValuesIn(EveryCombination()),
                         [](const auto& tested) { return tested.param.name(); });

// Therefore the tests above compare weights that all ranks have in common, over shm, with a process that
// shares no memory with them.
TEST(ShardedWeightsTest, ExistOnceOverShm) {
  for (const std::string& name : StrategyNames()) {
    if (!TraitsOf(name).shards_state) continue;
    const auto groups = comm::MakeGroups("shm", Cpus(2), std::chrono::seconds(60));
    comm::RunRanks(2, [&](int rank) {
      const TestModel model(kNumels);
      const std::vector<float> initial = model.params()[0]->value().ToVector<float>();
      StrategyOptions options = {.bucket_bytes = 300000};
      if (TraitsOf(name).FindOption("shared") != nullptr) options.values = {{"shared", 1}};
      const auto strategy = MakeStrategy(
          name, {.params = model.params(), .group = *groups[static_cast<size_t>(rank)], .options = options});
      strategy->BeginStep();
      if (rank == 1) model.params()[0]->MutableValue().Zero();
      groups[static_cast<size_t>(rank)]->Barrier();
      EXPECT_EQ(model.params()[0]->value().ToVector<float>(), std::vector<float>(initial.size())) << name;
      groups[static_cast<size_t>(rank)]->Barrier();
    });
  }
}

TEST(NoneTest, LeavesEveryRankItsOwnGradient) {
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeLocalGroups(2);
  const TestModel model(kNumels);
  const auto strategy =
      MakeStrategy(FloorTraits().name, {.params = model.params(), .group = *groups[1], .options = {}});
  strategy->BeginStep();
  model::Backward(model.Loss(1, 0), model.params(), [&](model::Parameter& p) { strategy->OnGradReady(p); });
  strategy->Finish();
  const float weight = model.params()[0]->value().ToVector<float>()[4];
  EXPECT_EQ(model.params()[0]->grad().ToVector<float>()[4], TestModel::GradientAt(1, 0, 0, 4, weight));
}

}  // namespace
}  // namespace gradsync::ddp
