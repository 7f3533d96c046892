#include "comm/shm_process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "comm/rank_threads.h"
#include "model/error.h"

// What is special about shm: where tensors lie, its deadlines, its checks. What comes of killed processes is
// in launch_test.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;
using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const model::DevicePtr& Cpu() {
  static const model::DevicePtr device = model::CpuDevice();
  return device;
}

Tensor Zeros(int64_t numel, DType dtype = DType::kF32) { return Tensor::Zeros(Cpu(), {numel}, dtype); }

std::vector<std::unique_ptr<ProcessGroup>> Connect(int size, milliseconds timeout = std::chrono::minutes(1)) {
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<ProcessGroup>> groups(static_cast<size_t>(size));
  RunRanks(size, [&](int rank) {
    const ShmOptions options{.world = {.rank = rank,
                                       .size = size,
                                       .local_rank = rank,
                                       .local_size = size,
                                       .rendezvous = "file://" + directory.path(),
                                       .launcher = "self"},
                             .timeout = timeout};
    groups[static_cast<size_t>(rank)] = MakeShmGroup(options);
  });
  return groups;
}

// Exact values whose sums depend on the order of additions.
float Uneven(int rank, int64_t i) {
  return static_cast<float>((i * 7919 + rank * 104729) % 100'003) * static_cast<float>(1 << 4 * rank);
}

void Fill(const Tensor& tensor, int rank, int64_t offset = 0) {
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = Uneven(rank, offset + i);
}

// How many elements are not what `expected` says of their index.
template <class Expected>
int64_t CountWrong(const Tensor& tensor, const Expected& expected) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) wrong += tensor.data<float>()[i] != expected(i) ? 1 : 0;
  return wrong;
}

float SumOfRanks(int size, int64_t i) {
  float sum = Uneven(0, i);
  for (int rank = 1; rank < size; ++rank) sum += Uneven(rank, i);
  return sum;
}

// Every collective on `numel` elements of `storage`, at elements from `offset` on.
void CheckResults(ProcessGroup& group, const Tensor& storage, int64_t offset, int64_t numel) {
  const int rank = group.rank();
  const int size = group.size();
  const Tensor tensor = storage.Slice(offset, {numel});
  Fill(tensor, rank);
  group.AllReduce(tensor, ReduceOp::kSum).Wait();
  EXPECT_EQ(CountWrong(tensor, [&](int64_t i) { return SumOfRanks(size, i); }), 0);

  Fill(tensor, rank);
  group.Broadcast(tensor, size - 1).Wait();
  EXPECT_EQ(CountWrong(tensor, [&](int64_t i) { return Uneven(size - 1, i); }), 0);

  const int64_t part = numel / size;
  const Tensor whole = tensor.Slice(0, {part * size});
  const Tensor own = whole.Slice(part * rank, {part});
  const auto gathered = [&](int64_t i) { return Uneven(static_cast<int>(i / part), i % part); };
  Fill(own, rank);
  group.AllGather(own, whole).Wait();
  EXPECT_EQ(CountWrong(whole, gathered), 0);

  Fill(whole, rank);
  const Tensor scattered = Zeros(part);
  group.ReduceScatter(whole, scattered, ReduceOp::kSum).Wait();
  EXPECT_EQ(CountWrong(scattered, [&](int64_t i) { return SumOfRanks(size, part * rank + i); }), 0);
  EXPECT_EQ(CountWrong(whole, [&](int64_t i) { return Uneven(rank, i); }), 0) << "input changed";
}

// With the notice, in place, and through windows; the last in one and in several chunks.
TEST(ShmMemoryTest, WhereTensorsLieDoesNotMatter) {
  for (const int size : {2, 3, 4}) {
    auto groups = Connect(size);
    RunRanks(size, [&](int rank) {
      ProcessGroup& group = *groups[static_cast<size_t>(rank)];
      constexpr int64_t kNumel = 500'003;
      const Tensor shared = group.Allocate(Cpu(), {kNumel + 100}, DType::kF32);
      const Tensor other = group.Allocate(Cpu(), {kNumel + 100}, DType::kF32);
      const Tensor ordinary = Zeros(kNumel + 100);
      for (const int64_t numel : {int64_t{5}, int64_t{1001}, int64_t{33'333}, kNumel}) {
        CheckResults(group, shared, 0, numel);
        CheckResults(group, ordinary, 0, numel);
        // At another place on each rank; on some not in shared memory; in another allocation.
        CheckResults(group, shared, 7 * rank, numel);
        CheckResults(group, rank == 1 ? ordinary : shared, 0, numel);
        CheckResults(group, rank == 1 ? other : shared, 0, numel);
      }
    });
  }
}

TEST(ShmMemoryTest, AllocationsComeAndGo) {
  auto groups = Connect(2);
  Tensor survivor;
  RunRanks(2, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    for (int round = 0; round < 20; ++round) {
      const Tensor tensor = group.Allocate(Cpu(), {5000 * (round + 1)}, DType::kF32);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw_data()) % 64, 0u);
      EXPECT_EQ(CountWrong(tensor, [](int64_t) { return 0.0f; }), 0);
      CheckResults(group, tensor, 0, tensor.numel());
      if (rank == 0) survivor = tensor;
    }
    EXPECT_EQ(group.Allocate(Cpu(), {0}, DType::kF32).numel(), 0);
    groups[static_cast<size_t>(rank)].reset();
  });
  Fill(survivor, 3);
  EXPECT_EQ(CountWrong(survivor, [](int64_t i) { return Uneven(3, i); }), 0) << "outlives its group";
}

TEST(ShmMemoryTest, AllocationsThatDifferAreNamed) {
  auto groups = Connect(2, milliseconds(300));
  const auto errors = ErrorsOfRanks(
      2, [&](int rank) { groups[static_cast<size_t>(rank)]->Allocate(Cpu(), {100 + rank}, DType::kF32); });
  EXPECT_EQ(errors[1],
            "rank 1: allocation of 404 bytes (shm) failed: rank 1 allocates 404 bytes where rank 0 allocates "
            "400");
}

// Sums of bf16 are rounded once: here every second addition alone would be lost.
TEST(ShmMemoryTest, BF16IsSummedInF32) {
  auto groups = Connect(3);
  RunRanks(3, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    for (const int64_t numel : {3, 100'000}) {
      const std::vector<model::BF16> values(static_cast<size_t>(numel),
                                            model::BF16(rank == 0 ? 256.0f : 1.0f));
      const Tensor tensor = Tensor::From<model::BF16>(Cpu(), {numel}, values);
      group.AllReduce(tensor, ReduceOp::kSum).Wait();
      for (const model::BF16 value : tensor.ToVector<model::BF16>()) {
        ASSERT_EQ(static_cast<float>(value), 258.0f) << numel;
      }
    }
  });
}

TEST(ShmMemoryTest, NothingIsLeftInAFileSystem) {
  const auto names = [] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      if (entry.path().string().find("gradsync") != std::string::npos) found.push_back(entry.path());
    }
    return found;
  };
  auto groups = Connect(2);
  RunRanks(2, [&](int rank) {
    const Tensor tensor = groups[static_cast<size_t>(rank)]->Allocate(Cpu(), {1 << 20}, DType::kF32);
    EXPECT_TRUE(names().empty()) << "while it is in use";
  });
}

std::string ErrorOf(Work work) {
  try {
    work.Wait();
  } catch (const CollectiveError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ShmDeadlineTest, ARankThatIssuesNothingIsNamed) {
  auto groups = Connect(3, milliseconds(300));
  std::vector<std::string> first(3);
  std::vector<std::string> second(3);
  RunRanks(3, [&](int rank) {
    if (rank == 2) return;
    const auto r = static_cast<size_t>(rank);
    Work work = groups[r]->AllReduce(Zeros(1 << 20), ReduceOp::kSum);
    first[r] = ErrorOf(work);
    EXPECT_EQ(ErrorOf(work), first[r]) << "every Wait throws";
    second[r] = ErrorOf(groups[r]->Broadcast(Zeros(10), 0));
    EXPECT_THROW(groups[r]->Barrier(), CollectiveError);
    EXPECT_THROW(groups[r]->Allocate(Cpu(), {10}, DType::kF32), CollectiveError);
  });
  for (const int rank : {0, 1}) {
    const auto r = static_cast<size_t>(rank);
    // How long it took is the machine's affair.
    EXPECT_THAT(first[r],
                ContainsRegex(
                    Join("^rank ", rank, ": all_reduce #0 of 4194304 bytes .shm. failed after [0-9.]+ s: ")));
    EXPECT_THAT(second[r], ContainsRegex(Join("^rank ", rank,
                                              ": broadcast #1 of 40 bytes .shm. failed after [0-9.]+ s: "
                                              "all_reduce #0 had failed: ")));
  }
  // One of them was first; the other may have seen it close its connections.
  EXPECT_THAT(first[0] + first[1], HasSubstr("rank 2 made no progress for 0.3 s"));
}

TEST(ShmDeadlineTest, EverythingInFlightFails) {
  auto groups = Connect(2, milliseconds(200));
  std::vector<Work> works;
  for (int i = 0; i < 20; ++i) works.push_back(groups[0]->AllReduce(Zeros(1 << (i % 18)), ReduceOp::kSum));
  for (Work& work : works) EXPECT_THAT(ErrorOf(work), StartsWith("rank 0: all_reduce #"));
}

TEST(ShmDeadlineTest, ADestroyedPeerIsNoticedAtOnce) {
  for (const int64_t numel : {10, 4 << 20}) {
    auto groups = Connect(3);  // a minute
    const int64_t start_ns = Now();
    std::vector<std::string> errors(3);
    RunRanks(3, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      if (rank == 1) {
        std::this_thread::sleep_for(milliseconds(50));
        groups[r].reset();
        return;
      }
      errors[r] = ErrorOf(groups[r]->AllReduce(Zeros(numel), ReduceOp::kSum));
    });
    EXPECT_LT(Now() - start_ns, 20'000'000'000);
    EXPECT_THAT(errors[0] + errors[2], HasSubstr("rank 1 closed the connection"));
  }
}

// Over and over, at another moment each time.
TEST(ShmDeadlineTest, ADestroyedPeerIsNoticedInTheMidstOfATransfer) {
  for (int round = 0; round < 10; ++round) {
    auto groups = Connect(2);
    const int64_t start_ns = Now();
    RunRanks(2, [&](int rank) {
      std::vector<Work> works;
      auto& group = groups[static_cast<size_t>(rank)];
      for (int i = 0; i < 4; ++i) works.push_back(group->AllReduce(Zeros(3 << 20), ReduceOp::kSum));
      works.push_back(group->Broadcast(Zeros(8 << 20), 0));
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(3000 * round));
        group.reset();
      }
      // On rank 1 either it was done or the group went first. On rank 0 likewise; but it must end.
      for (Work& work : works) ErrorOf(work);
    });
    EXPECT_LT(Now() - start_ns, 20'000'000'000) << "round " << round;
  }
}

// Who has given all that others need may leave.
TEST(ShmDeadlineTest, ALeaverDoesNotSpoilWhatItTookPartIn) {
  for (int round = 0; round < 20; ++round) {
    auto groups = Connect(3);
    RunRanks(3, [&](int rank) {
      auto& group = groups[static_cast<size_t>(rank)];
      const Tensor tensor = Zeros(round % 2 == 0 ? 10 : 100'000);
      if (rank == 2) std::this_thread::sleep_for(milliseconds(round));
      group->AllReduce(tensor, ReduceOp::kSum).Wait();
      group.reset();
    });
  }
}

TEST(ShmDeadlineTest, DestructionWithWorkInTheQueueDoesNotHang) {
  const int64_t start_ns = Now();
  std::vector<Work> works;
  {
    auto groups = Connect(2);
    for (int i = 0; i < 10; ++i) works.push_back(groups[0]->AllReduce(Zeros(100), ReduceOp::kSum));
  }
  for (Work& work : works) {
    EXPECT_THAT(ErrorOf(work), HasSubstr("the group was destroyed before it finished"));
  }
  EXPECT_LT(Now() - start_ns, 20'000'000'000);
}

TEST(ShmCheckTest, NamesTheFirstMismatchOnEveryRank) {
  auto groups = Connect(3);
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    group.AllReduce(Zeros(1000), ReduceOp::kSum).Wait();
    group.Broadcast(Zeros(1000), 2).Wait();
    group.Barrier();
    Work work = rank == 1 ? group.Broadcast(Zeros(2 << 20), 0)
                          : group.AllReduce(Zeros(1, DType::kI32), ReduceOp::kMax);
    work.Wait();
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(StartsWith(Join("rank ", rank, ": ")),
                      HasSubstr("rank 1 issues broadcast of 8388608 bytes f32 (root 0) where rank 0 issues "
                                "all_reduce of 4 bytes i32 (max) (#3)")));
  }
}

// What waits for nobody needs no thread: the other ranks have this one's part without its waiting.
TEST(ShmQueueTest, AShortCollectiveNeedsNoWait) {
  auto groups = Connect(2);
  const Tensor dropped = Zeros(10);
  groups[0]->AllReduce(dropped, ReduceOp::kSum);
  groups[1]->AllReduce(Zeros(10), ReduceOp::kSum).Wait();
}

TEST(ShmOptionsTest, BadOptionsAreNamed) {
  const auto error_of = [](const ShmOptions& options) -> std::string {
    try {
      MakeShmGroup(options);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.world = {.rank = 2, .size = 2}}), "shm: rank 2 of a world of 2");
  EXPECT_EQ(error_of({.world = {}, .timeout = milliseconds(0)}), "shm: timeout is 0 ms, expected at least 1");
}

TEST(ShmOptionsTest, RanksOnDifferentHostsAreRefused) {
  const TemporaryDirectory directory;
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    MakeShmGroup({.world = {.rank = rank,
                            .size = 3,
                            .local_size = 0,
                            .rendezvous = "file://" + directory.path(),
                            .host = rank == 2 ? "elsewhere" : ""}});
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "backend shm: ranks 0 and 2 are on different hosts, expected all ranks on one");
  }
}

TEST(ShmOptionsTest, AMissingRankIsNamedAtTheStart) {
  const TemporaryDirectory directory;
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    if (rank == 1) return;
    MakeShmGroup({.world = {.rank = rank, .size = 3, .rendezvous = "file://" + directory.path()},
                  .timeout = milliseconds(300)});
  });
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)], Join("rank ", rank, ": rank 1 did not arrive at file://",
                                                      directory.path(), " within 0.3 s; arrived: 0, 2"));
  }
}

}  // namespace
}  // namespace gradsync::comm
