#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/factory.h"
#include "comm/rendezvous/job.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

// Deadlines, lost peers and collectives that differ, in every backend whose ranks can be lost. What comes of
// killed processes is in launch_test.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The timeout of groups that are to run into it. It leaves time for all ranks to meet first.
constexpr milliseconds kShort{2000};

const model::DevicePtr& Cpu() {
  static const model::DevicePtr device = model::CpuDevice();
  return device;
}

Tensor Zeros(int64_t numel, DType dtype = DType::kF32) { return Tensor::Zeros(Cpu(), {numel}, dtype); }

std::string ErrorOf(Work work) {
  return comm::ErrorOf<CollectiveError>([&] { work.Wait(); });
}

// Long before a deadline that is not for this.
class Within {
 public:
  explicit Within(int64_t seconds) : end_ns_(Now() + seconds * 1'000'000'000) {}
  ~Within() { EXPECT_LT(Now(), end_ns_); }

 private:
  const int64_t end_ns_;
};

class FailureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (ranks_per_host() > 0 && OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  }

  static int ranks_per_host() { return RanksPerHost(GetParam()); }
  static int size() { return ranks_per_host() > 0 ? 4 : 3; }

  static std::vector<std::unique_ptr<ProcessGroup>> Connect(milliseconds timeout = std::chrono::minutes(1)) {
    return MakeGroups(GetParam(), size(), timeout, ranks_per_host());
  }
  // Calls body(rank, group) on every rank's thread.
  static void OnAllRanks(std::vector<std::unique_ptr<ProcessGroup>>& groups,
                         const std::function<void(int rank, std::unique_ptr<ProcessGroup>& group)>& body) {
    RunRanks(size(), [&](int rank) { body(rank, groups[static_cast<size_t>(rank)]); });
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, FailureTest, testing::Values("gloo", "shm", "hierarchical"),
                         [](const auto& tested) { return tested.param; });

TEST_P(FailureTest, ARankThatIssuesNothingIsNamed) {
  auto groups = Connect(kShort);
  const Within within(10);
  std::vector<std::string> first(4);
  std::vector<std::string> second(4);
  OnAllRanks(groups, [&](int rank, auto& group) {
    if (rank == 2) return;
    const auto r = static_cast<size_t>(rank);
    Work work = group->AllReduce(Zeros(1 << 20), ReduceOp::kSum);
    first[r] = ErrorOf(work);
    EXPECT_EQ(ErrorOf(work), first[r]) << "every Wait throws";
    second[r] = ErrorOf(group->Broadcast(Zeros(10), 0));
    EXPECT_THROW(group->Barrier(), CollectiveError);
    if (GetParam() != "gloo") {
      EXPECT_THROW(group->Allocate(Cpu(), {10}, DType::kF32), CollectiveError);
    }
  });
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == 2) continue;
    const auto r = static_cast<size_t>(rank);
    // How long it took is the machine's affair.
    EXPECT_THAT(first[r], ContainsRegex(Join("^rank ", rank, ": all_reduce #0 of 4194304 bytes .", GetParam(),
                                             ". failed after [0-9.]+ s: ")));
    EXPECT_THAT(second[r], ContainsRegex(Join("^rank ", rank, ": broadcast #1 of 40 bytes .", GetParam(),
                                              ". failed after [0-9.]+ s: all_reduce #0 had failed: ")));
  }
  // One of them was first; the others may have seen it close its connections.
  EXPECT_THAT(first[0] + first[1] + first[3], HasSubstr("rank 2 made no progress for 2.0 s"));
}

TEST_P(FailureTest, EverythingInFlightFails) {
  auto groups = Connect(kShort);
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) works.push_back(groups[0]->AllReduce(Zeros(1 << (i % 18)), ReduceOp::kSum));
  for (Work& work : works) EXPECT_THAT(ErrorOf(work), StartsWith("rank 0: all_reduce #"));
}

TEST_P(FailureTest, ADestroyedPeerIsNoticedAtOnce) {
  for (const int64_t numel : {10, 4 << 20}) {
    auto groups = Connect();
    const Within within(20);
    std::vector<std::string> errors(4);
    OnAllRanks(groups, [&](int rank, auto& group) {
      if (rank == 1) {
        std::this_thread::sleep_for(milliseconds(50));
        group.reset();
        return;
      }
      errors[static_cast<size_t>(rank)] = ErrorOf(group->AllReduce(Zeros(numel), ReduceOp::kSum));
    });
    EXPECT_THAT(errors[0] + errors[2] + errors[3], HasSubstr("rank 1 closed the connection"));
  }
}

// Though others close connections because of the first that failed, or wait for ranks that wait for it.
TEST_P(FailureTest, AnInnocentRankIsNeverBlamed) {
  for (const int culprit : {size() - 1, 0}) {
    for (const bool leaves : {true, false}) {
      const TemporaryDirectory directory;
      std::atomic<int> num_failed{0};
      const auto errors = ErrorsOfRanks(size(), [&](int rank) {
        const World world{.rank = rank,
                          .size = size(),
                          .local_size = 0,
                          .rendezvous = "file://" + directory.path(),
                          .host = ranks_per_host() == 0 ? "" : Join("host", rank / ranks_per_host())};
        auto group = MakeProcessGroup({.backend = GetParam(),
                                       .world = JoinJob(world, {}, std::chrono::seconds(30)),
                                       .timeout = leaves ? std::chrono::minutes(1) : kShort,
                                       .interface_or_address = {}},
                                      Cpu());
        group->AllReduce(Zeros(3 << 20), ReduceOp::kSum).Wait();
        // A rank that has come later than those who wait for it may wait for another as long as they do.
        if (!leaves && ranks_per_host() > 0 && rank == (culprit ^ 1))
          std::this_thread::sleep_for(kShort * 3 / 4);
        if (rank == culprit) {
          while (!leaves && num_failed < size() - 1) std::this_thread::sleep_for(milliseconds(10));
          return;
        }
        const std::string error = ErrorOf(group->AllReduce(Zeros(3 << 20), ReduceOp::kSum));
        ++num_failed;
        throw CollectiveError(error);
      });
      EXPECT_EQ(errors[static_cast<size_t>(culprit)], "");
      for (int rank = 0; rank < size(); ++rank) {
        if (rank == culprit) continue;
        EXPECT_THAT(
            errors[static_cast<size_t>(rank)],
            HasSubstr(Join(": rank ", culprit, leaves ? " closed the connection" : " made no progress")));
      }
    }
  }
}

// Over and over, at another moment of the transfer each time.
TEST_P(FailureTest, ADestroyedPeerIsNoticedInTheMidstOfATransfer) {
  for (int round = 0; round < 10; ++round) {
    auto groups = Connect();
    const Within within(20);
    OnAllRanks(groups, [&](int rank, auto& group) {
      std::vector<Work> works;
      for (int i = 0; i < 4; ++i) works.push_back(group->AllReduce(Zeros(3 << 20), ReduceOp::kSum));
      works.push_back(group->Broadcast(Zeros(8 << 20), 0));
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(3000 * round));
        group.reset();
      }
      // On rank 1 either it was done or the group went first. On the others likewise; but it must end.
      for (Work& work : works) ErrorOf(work);
    });
  }
}

TEST_P(FailureTest, DestructionWithWorkInTheQueueDoesNotHang) {
  const Within within(20);
  std::vector<Work> works;
  {
    auto groups = Connect();
    for (int i = 0; i < 10; ++i) works.push_back(groups[0]->AllReduce(Zeros(100), ReduceOp::kSum));
  }
  for (Work& work : works) {
    EXPECT_THAT(ErrorOf(work), HasSubstr("the group was destroyed before it finished"));
  }
}

TEST_P(FailureTest, NamesTheFirstMismatchOnEveryRank) {
  if (GetParam() != "shm") GTEST_SKIP() << "ranks do not see each other's collectives";
  auto groups = Connect();
  const auto errors = ErrorsOfRanks(size(), [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    group.AllReduce(Zeros(1000), ReduceOp::kSum).Wait();
    group.Broadcast(Zeros(1000), 2).Wait();
    group.Barrier();
    Work work = rank == 1 ? group.Broadcast(Zeros(2 << 20), 0)
                          : group.AllReduce(Zeros(1, DType::kI32), ReduceOp::kMax);
    work.Wait();
  });
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(StartsWith(Join("rank ", rank, ": ")),
                      HasSubstr("rank 1 issues broadcast of 8388608 bytes f32 (root 0) where rank 0 issues "
                                "all_reduce of 4 bytes i32 (max) (#3)")));
  }
}

TEST_P(FailureTest, AMissingRankIsNamedAtTheStart) {
  const TemporaryDirectory directory;
  const std::string place = "file://" + directory.path();
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    if (rank == 1) return;
    MakeProcessGroup({.backend = GetParam(),
                      .world = {.rank = rank, .size = 3, .rendezvous = place},
                      .timeout = std::chrono::seconds(3),
                      .interface_or_address = {}},
                     Cpu());
  });
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)],
              Join("rank ", rank, ": rank 1 did not arrive at ", place, " within 3.0 s; arrived: 0, 2"));
  }
}

TEST_P(FailureTest, BadOptionsAreNamed) {
  const auto error_of = [](const World& world, milliseconds timeout) {
    return comm::ErrorOf<InvalidInput>([&] {
      MakeProcessGroup(
          {.backend = GetParam(), .world = world, .timeout = timeout, .interface_or_address = {}}, Cpu());
    });
  };
  EXPECT_EQ(error_of({.rank = 2, .size = 2}, milliseconds(1)), GetParam() + ": rank 2 of a world of 2");
  EXPECT_EQ(error_of({}, milliseconds(0)), GetParam() + ": timeout is 0 ms, expected at least 1");
}

}  // namespace
}  // namespace gradsync::comm
