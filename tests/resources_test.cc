// What a long run must not use up: descriptors, threads, memory.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"

namespace gradsync {
namespace {

constexpr int kRanks = 2;
// A sanitizer's allocator keeps what is freed, to see whether it is used.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFreedIsGone = false;
#else
constexpr bool kFreedIsGone = true;
#endif
// What the allocator of the C library may keep for threads that came and went, and for those that stayed. A
// hundred buffers of 1 MiB would be more than the first, 5 KiB in each of a thousand steps than the second.
constexpr int64_t kKeptForThreadsBytes = int64_t{32} << 20;
constexpr int64_t kKeptBytes = int64_t{4} << 20;

int64_t CountEntries(const std::string& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

struct Resources {
  int64_t descriptors = CountEntries("/proc/self/fd");
  int64_t threads = CountEntries("/proc/self/task");
  int64_t mappings = 0;
  int64_t resident_bytes = 0;

  Resources() {
    malloc_trim(0);
    std::ifstream statm("/proc/self/statm");
    statm >> resident_bytes >> resident_bytes;
    resident_bytes *= sysconf(_SC_PAGESIZE);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++mappings;
  }
};

void ExpectNoMore(const Resources& before, int64_t kept_bytes) {
  const Resources now;
  EXPECT_LE(now.descriptors, before.descriptors);
  EXPECT_LE(now.threads, before.threads);
  if (!kFreedIsGone) return;
  EXPECT_LE(now.mappings, before.mappings + 16);
  EXPECT_LE(now.resident_bytes, before.resident_bytes + kept_bytes);
}

class ResourcesTest : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Backends, ResourcesTest, testing::Values("local", "gloo", "shm"),
                         [](const auto& test) { return test.param; });

// Each with a collective of 1 MiB, so that a buffer that stays would be seen.
TEST_P(ResourcesTest, OneHundredGroupsLeaveNothing) {
  const auto join_and_leave = [&] {
    const auto groups = comm::MakeGroups(GetParam(), kRanks);
    comm::RunRanks(kRanks, [&](int rank) {
      const model::Tensor tensor = model::Tensor::Zeros(model::CpuDevice(), {1 << 18}, model::DType::kF32);
      groups[static_cast<size_t>(rank)]->AllReduce(tensor, comm::ReduceOp::kSum).Wait();
    });
  };
  // Threads find arenas of the C library's allocator, until there are no more of them.
  for (int i = 0; i < 50; ++i) join_and_leave();
  const Resources before;
  for (int i = 0; i < 100; ++i) join_and_leave();
  ExpectNoMore(before, kKeptForThreadsBytes);
}

TEST_P(ResourcesTest, AThousandStepsOfEveryStrategyUseUpNothing) {
  const auto groups = comm::MakeGroups(GetParam(), kRanks);
  const std::vector<std::string> names = ddp::StrategyNames();
  struct Rank {
    ddp::TestModel model{{5, 1000, 1, 7000, 33, 16}};
    model::Sgd optimizer{model.params(), {}};
    std::vector<std::unique_ptr<ddp::Strategy>> strategies{};
  };
  std::vector<Rank> ranks(kRanks);
  const auto train = [&](int num_steps) {
    comm::RunRanks(kRanks, [&](int r) {
      Rank& rank = ranks[static_cast<size_t>(r)];
      const auto& params = rank.model.params();
      for (size_t s = 0; s < names.size(); ++s) {
        if (rank.strategies.size() == s) {
          rank.strategies.push_back(ddp::MakeStrategy(names[s], {.params = params,
                                                                 .group = *groups[static_cast<size_t>(r)],
                                                                 .options = {.bucket_bytes = 4096}}));
        }
        ddp::Strategy& strategy = *rank.strategies[s];
        for (int step = 0; step < num_steps; ++step) {
          for (model::Parameter* const param : params) param->ResetGrad();
          strategy.BeginStep();
          model::Backward(ddp::TestModel::Scaled(rank.model.Loss(r, step), strategy.loss_scale()), params,
                          [&](model::Parameter& param) { strategy.OnGradReady(param); });
          strategy.Finish();
          strategy.Update(rank.optimizer);
        }
        for (model::Parameter* const param : params) param->TakeBack();
      }
    });
  };
  train(20);
  const Resources before;
  train(1000);
  ExpectNoMore(before, kKeptBytes);
}

}  // namespace
}  // namespace gradsync
