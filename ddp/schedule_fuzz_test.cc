// Whatever becomes ready when, and on whichever rank first, the numbers are those of a single process. Every
// seed is another strategy, world, backend, set of parameters and buckets; each rank uses other parameters in
// another order, and is held up at random. On a machine with time:
//   bazel run //ddp:schedule_fuzz_test -- --first_seed=1 --seeds=10000
//   bazel run --config=tsan //ddp:schedule_fuzz_test -- --seeds=1000
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddp/equivalence_suite.h"

namespace gradsync::ddp {
namespace {

struct Seeds {
  int first = 1;
  int count = 40;
};
Seeds seeds;  // from the command line

// Random numbers that depend on the arguments alone: ranks are threads, and share none.
class Dice {
 public:
  template <class... Seed>
  explicit Dice(Seed... seed) {
    std::seed_seq sequence{seed...};
    engine_.seed(sequence);
  }

  // From 0 to n - 1.
  int Below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  bool OneIn(int n) { return Below(n) == 0; }
  template <class T>
  T OneOf(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(static_cast<int>(values.size())))];
  }
  std::minstd_rand& engine() { return engine_; }

 private:
  std::minstd_rand engine_;
};

// The first parameter is used by all, so that every loss depends on something.
std::vector<size_t> RandomUses(size_t num_params, Dice dice) {
  std::vector<size_t> uses = {0};
  for (size_t p = 1; p < num_params; ++p) {
    const int times = dice.OneOf<int>({0, 1, 1, 1, 1, 1, 1, 2});
    uses.insert(uses.end(), static_cast<size_t>(times), p);
  }
  if (!dice.OneIn(4)) std::ranges::shuffle(uses, dice.engine());
  return uses;
}

void Hold(int max_us, Dice& dice) {
  std::this_thread::sleep_for(std::chrono::microseconds(dice.Below(max_us)));
}

Graph RandomGraph(int seed, int world_size, Dice& dice) {
  Graph graph;
  graph.numels.clear();
  const int num_params = 1 + dice.Below(12);
  for (int p = 0; p < num_params; ++p)
    graph.numels.push_back(1 + dice.Below(dice.OneOf<int>({1, 100, 3000, 40000})));
  graph.num_steps = 2 + dice.Below(3);
  // As in training, or another graph on each rank, or in each step.
  const int rank_matters = dice.Below(2), step_matters = dice.Below(2);
  graph.uses = [=, count = graph.numels.size()](int rank, int step) {
    return RandomUses(count, Dice(seed, rank_matters * rank, step_matters * step));
  };
  // Half of the operations touch few rows; which do, and how many, may be another matter on each rank and in
  // each step.
  graph.rows = [=, uses = graph.uses, numels = graph.numels](int rank, int step,
                                                             int use) -> std::optional<std::vector<int32_t>> {
    const int differs = Dice(seed, use).OneIn(3) ? 1 : 0;
    Dice number(seed, use, differs * rank, differs * step), place(seed, use, rank, step, 1);
    if (number.OneIn(2)) return std::nullopt;
    std::vector<int32_t> rows(static_cast<size_t>(number.Below(20)));
    const size_t param = uses(rank, step).at(static_cast<size_t>(use));
    for (int32_t& row : rows) row = place.Below(static_cast<int>(numels[param]));
    return rows;
  };
  const int slow_rank = dice.Below(2 * world_size);  // there may be none
  graph.visit = [=](int rank, int step, int use) {
    Dice moment(seed, rank, step, use);
    if (rank == slow_rank) Hold(200, moment);
    if (moment.OneIn(10)) Hold(1000, moment);
  };
  return graph;
}

TEST(ScheduleFuzzTest, NumbersAreThoseOfASingleProcess) {
  const std::vector<Tested> strategies = AveragingStrategies();
  for (int seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Dice dice(seed);
    Tested tested = dice.OneOf(strategies);
    for (const std::string& option : SwitchesOf(tested)) tested.values[option] = dice.Below(2);
    if (tested.strategy == "zero3") tested.values["prefetch"] = dice.Below(3);
    const int world_size = dice.OneOf<int>({1, 2, 3, 4, 5, 8});
    const std::string backend = dice.OneIn(3) ? "gloo" : "local";
    const size_t bucket_bytes = dice.OneOf<size_t>({1, 1000, 20'000, 25 << 20});
    SCOPED_TRACE(Join("--first_seed=", seed, " --seeds=1: ", tested.name(), ", ", world_size, " ranks, ",
                      backend, ", buckets of ", bucket_bytes, " bytes"));
    std::vector<model::DevicePtr> devices;
    for (int rank = 0; rank < world_size; ++rank) devices.push_back(model::CpuDevice());
    CheckEquivalence(tested, bucket_bytes, backend, devices, RandomGraph(seed, world_size, dice));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace gradsync::ddp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(std::min(argument.find('=') + 1, argument.size())));
    if (argument.starts_with("--first_seed=")) {
      gradsync::ddp::seeds.first = std::atoi(value.c_str());
    } else if (argument.starts_with("--seeds=")) {
      gradsync::ddp::seeds.count = std::atoi(value.c_str());
    } else {
      std::fprintf(stderr, "%s: expected --first_seed=N or --seeds=N\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
