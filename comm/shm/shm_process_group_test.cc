#include "comm/shm/shm_process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"

// What is special about shm: where tensors lie, and that a rank that has done its part may go on.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

const model::DevicePtr& Cpu() {
  static const model::DevicePtr device = model::CpuDevice();
  return device;
}

Tensor Zeros(int64_t numel, DType dtype = DType::kF32) { return Tensor::Zeros(Cpu(), {numel}, dtype); }

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
    auto groups = MakeGroups("shm", size);
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
  auto groups = MakeGroups("shm", 2);
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

TEST(ShmMemoryTest, AllocationsAreCountedWithTheDevices) {
  auto groups = MakeGroups("shm", 2);
  RunRanks(2, [&](int rank) {
    const model::DevicePtr device = model::CpuDevice();
    std::optional<Tensor> tensor =
        groups[static_cast<size_t>(rank)]->Allocate(device, {int64_t{1} << 20}, DType::kF32);
    EXPECT_EQ(device->allocator().stats().bytes_in_use, size_t{4} << 20);
    tensor.reset();
    EXPECT_EQ(device->allocator().stats().bytes_in_use, 0u);
    EXPECT_EQ(device->allocator().stats().bytes_held, 0u);
    EXPECT_EQ(device->allocator().stats().peak_bytes_in_use, size_t{4} << 20);
  });
}

TEST(ShmMemoryTest, SharedMemoryIsCountedOnceOverAllRanks) {
  auto groups = MakeGroups("shm", 2);
  RunRanks(2, [&](int rank) {
    const model::DevicePtr device = model::CpuDevice();
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    std::optional<Tensor> tensor = group.AllocateShared(device, {int64_t{1} << 20}, DType::kF32);
    EXPECT_EQ(device->allocator().stats().bytes_in_use, size_t{2} << 20);
    tensor->Slice(rank, {1}).data<float>()[0] = static_cast<float>(rank + 1);
    group.Barrier();
    EXPECT_EQ(tensor->data<float>()[0], 1);
    EXPECT_EQ(tensor->data<float>()[1], 2);
    tensor.reset();
    EXPECT_EQ(device->allocator().stats().bytes_in_use, 0u);
    EXPECT_FALSE(group.AllocateShared(device, {0}, DType::kF32).defined());
  });
}

// The other ranks have the memory. No later allocation may be taken for another one's.
TEST(ShmMemoryTest, AnAllocationThatFailsOnOneRankFailsTheGroup) {
  auto groups = MakeGroups("shm", 3, std::chrono::seconds(30));
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    groups[static_cast<size_t>(rank)]->Allocate(Cpu(), {rank == 1 ? 101 : 100}, DType::kF32);
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1],
            "rank 1: allocation of 404 bytes (shm) failed: rank 1 allocates 404 bytes where rank 0 allocates "
            "400");
  const auto later = ErrorsOfRanks(
      3, [&](int rank) { groups[static_cast<size_t>(rank)]->AllReduce(Zeros(10), ReduceOp::kSum).Wait(); });
  EXPECT_THAT(later[0], HasSubstr("closed the connection"));
  EXPECT_THAT(later[1],
              HasSubstr("allocate had failed: rank 1 allocates 404 bytes where rank 0 allocates 400"));
  EXPECT_THAT(later[2], HasSubstr("closed the connection"));
}

// What is behind an address, and whether other programs may have it.
std::string MappingOf(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const auto place = reinterpret_cast<uintptr_t>(address);
    if (begin <= place && place < end) return line;
  }
  return "nothing";
}

// A memory file has no name in any file system, and is gone with its last mapping.
TEST(ShmMemoryTest, NothingIsLeftInAFileSystem) {
  auto groups = MakeGroups("shm", 2);
  RunRanks(2, [&](int rank) {
    const Tensor tensor = groups[static_cast<size_t>(rank)]->Allocate(Cpu(), {1 << 20}, DType::kF32);
    EXPECT_THAT(MappingOf(tensor.raw_data()), HasSubstr(" /memfd:gradsync (deleted)"));
    EXPECT_THAT(MappingOf(tensor.raw_data()), HasSubstr(" rw-s "));
  });
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    EXPECT_THAT(std::filesystem::read_symlink(entry.path(), gone).string(), Not(HasSubstr("memfd:gradsync")));
  }
}

// Who has given all that others need may leave.
TEST(ShmDeadlineTest, ALeaverDoesNotSpoilWhatItTookPartIn) {
  for (int round = 0; round < 20; ++round) {
    auto groups = MakeGroups("shm", 3);
    RunRanks(3, [&](int rank) {
      auto& group = groups[static_cast<size_t>(rank)];
      const Tensor tensor = Zeros(round % 2 == 0 ? 10 : 100'000);
      if (rank == 2) std::this_thread::sleep_for(milliseconds(round));
      group->AllReduce(tensor, ReduceOp::kSum).Wait();
      group.reset();
    });
  }
}

// What waits for nobody needs no thread: the other ranks have this one's part without its waiting.
TEST(ShmQueueTest, AShortCollectiveNeedsNoWait) {
  auto groups = MakeGroups("shm", 2);
  const Tensor dropped = Zeros(10);
  groups[0]->AllReduce(dropped, ReduceOp::kSum);
  groups[1]->AllReduce(Zeros(10), ReduceOp::kSum).Wait();
}

// Then no thread takes it, unless one is awake because it has just started.
TEST(ShmQueueTest, ALongOneIsLeftToACallerThatWaitsAtOnce) {
  auto groups = MakeGroups("shm", 2);
  const auto deadline = DeadlineInAMinute();
  for (bool is_left = false; !is_left;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    Work work = groups[0]->AllReduce(Zeros(100'000), ReduceOp::kSum, Waits::kAtOnce);
    std::thread other([&] { groups[1]->AllReduce(Zeros(100'000), ReduceOp::kSum, Waits::kAtOnce).Wait(); });
    std::this_thread::sleep_for(milliseconds(50));
    is_left = !work.Done();
    work.Wait();
    other.join();
  }
  const Work later = groups[0]->AllReduce(Zeros(100'000), ReduceOp::kSum);
  groups[1]->AllReduce(Zeros(100'000), ReduceOp::kSum).Wait();
}

TEST(ShmOptionsTest, RanksOnDifferentHostsAreRefused) {
  const TemporaryDirectory directory;
  const auto errors = ErrorsOfRanks(3, [&](int rank) {
    MakeShmGroup({.world = {.rank = rank,
                            .size = 3,
                            .local_size = 0,
                            .rendezvous = "file://" + directory.path(),
                            .host = rank == 2 ? "elsewhere" : ""}},
                 Cpu(), nullptr);
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "backend shm: ranks 0 and 2 are on different hosts, expected all ranks on one");
  }
}

}  // namespace
}  // namespace gradsync::comm
