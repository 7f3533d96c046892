#include "comm/hierarchical/hierarchical_process_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/factory.h"
#include "comm/queue/recording_process_group.h"
#include "comm/rendezvous/job.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

// What is special about hierarchical: which rank is where, and chunks.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

constexpr int kHosts = 2;
constexpr int kSize = 4;

const model::DevicePtr& Cpu() {
  static const model::DevicePtr device = model::CpuDevice();
  return device;
}

// Small integers: all sums are exact.
float Value(int rank, int64_t i) { return static_cast<float>((i * 7919 + rank * 31) % 1009); }

float SumOfRanks(int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < kSize; ++rank) sum += Value(rank, i);
  return sum;
}

void Fill(const Tensor& tensor, int rank) {
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] = Value(rank, i);
}

int64_t CountWrong(const Tensor& tensor, const std::function<float(int64_t i)>& expected) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) wrong += tensor.data<float>()[i] != expected(i) ? 1 : 0;
  return wrong;
}

// Every collective, `numel` elements for each rank, all on their way at once.
void CheckResults(ProcessGroup& group, const std::function<Tensor(int64_t numel)>& make, int64_t numel) {
  const int rank = group.rank();
  const Tensor reduced = make(numel);
  const Tensor copied = make(numel);
  const Tensor input = make(kSize * numel);
  const Tensor scattered = make(numel);
  const Tensor gathered = make(kSize * numel);
  const Tensor own = gathered.Slice(rank * numel, {numel});
  for (const Tensor& tensor : {reduced, copied, input, own}) Fill(tensor, rank);
  std::vector<Work> works = {group.AllReduce(reduced, ReduceOp::kSum), group.Broadcast(copied, 2),
                             group.ReduceScatter(input, scattered, ReduceOp::kSum),
                             group.AllGather(own, gathered)};
  for (Work& work : works) work.Wait();
  EXPECT_EQ(CountWrong(reduced, SumOfRanks), 0) << numel;
  EXPECT_EQ(CountWrong(copied, [](int64_t i) { return Value(2, i); }), 0) << numel;
  EXPECT_EQ(CountWrong(scattered, [&](int64_t i) { return SumOfRanks(rank * numel + i); }), 0) << numel;
  EXPECT_EQ(CountWrong(input, [&](int64_t i) { return Value(rank, i); }), 0) << numel << ": input changed";
  EXPECT_EQ(CountWrong(gathered, [&](int64_t i) { return Value(static_cast<int>(i / numel), i % numel); }), 0)
      << numel;
}

// By `host_of` rank.
std::vector<std::unique_ptr<ProcessGroup>> Connect(const std::string& inner,
                                                   const std::function<int(int rank)>& host_of) {
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<ProcessGroup>> groups(kSize);
  RunRanks(kSize, [&](int rank) {
    GroupOptions options;
    options.backend = "hierarchical";
    options.backend_options = {{"inner", inner}};
    options.world = {.rank = rank,
                     .size = kSize,
                     .rendezvous = "file://" + directory.path(),
                     .host = Join("host", host_of(rank))};
    groups[static_cast<size_t>(rank)] = MakeProcessGroup(options, Cpu());
  });
  return groups;
}

// Vectors of one chunk and of several, with and without a rest that the ranks of a host cannot share; in
// memory of the group and in any.
TEST(HierarchicalTest, RanksOfAHostNeedNotFollowEachOther) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  for (const bool follow : {true, false}) {
    auto groups = Connect(follow ? "gloo" : "shm",
                          [&](int rank) { return follow ? rank / (kSize / kHosts) : rank % kHosts; });
    RunRanks(kSize, [&](int rank) {
      ProcessGroup& group = *groups[static_cast<size_t>(rank)];
      const GroupFacts facts = group.facts();
      EXPECT_EQ(facts.more.back().second, "2 of 2 ranks, by GRADSYNC_HOST");
      EXPECT_EQ(facts.channels, 1);
      EXPECT_EQ(facts.receivers, 1);  // between hosts
      EXPECT_NE(facts.interface, "");
      for (const int64_t numel : {1, 1000, 1'500'001}) {
        CheckResults(
            group, [&](int64_t n) { return group.Allocate(Cpu(), {n}, DType::kF32); }, numel);
        CheckResults(
            group, [&](int64_t n) { return Tensor::Zeros(Cpu(), {n}, DType::kF32); }, numel);
      }
    });
  }
}

// What is reduced to parts comes from all ranks, in every host; the rest stays within a host.
TEST(HierarchicalTest, AHostsRanksAreAGroup) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  constexpr int64_t kNumel = 100'001;
  for (const bool follow : {true, false}) {
    const auto host_of = [&](int rank) { return follow ? rank / (kSize / kHosts) : rank % kHosts; };
    auto groups = Connect(follow ? "gloo" : "shm", host_of);
    RunRanks(kSize, [&](int rank) {
      HostGroup group(*groups[static_cast<size_t>(rank)]);
      const int local = follow ? rank % 2 : rank / kHosts;
      const int other = follow ? rank ^ 1 : (rank + kHosts) % kSize;  // on this host
      ASSERT_EQ(group.rank(), local);
      ASSERT_EQ(group.size(), 2);
      ASSERT_EQ(group.num_hosts(), kHosts);
      const auto make = [](int64_t numel) { return Tensor::Zeros(Cpu(), {numel}, DType::kF32); };
      const Tensor input = make(2 * kNumel), part = make(kNumel), mean = make(kNumel);
      const Tensor gathered = make(2 * kNumel), own = gathered.Slice(local * kNumel, {kNumel});
      const Tensor reduced = make(kNumel), copied = make(kNumel);
      for (const Tensor& tensor : {input, own, reduced, copied}) Fill(tensor, rank);
      std::vector<Work> works = {group.ReduceScatter(input, part, ReduceOp::kSum),
                                 group.ReduceScatter(input, mean, ReduceOp::kMean),
                                 group.AllGather(own, gathered), group.AllReduce(reduced, ReduceOp::kSum),
                                 group.Broadcast(copied, 1)};
      for (Work& work : works) work.Wait();
      group.Barrier();
      EXPECT_EQ(CountWrong(part, [&](int64_t i) { return SumOfRanks(local * kNumel + i); }), 0);
      EXPECT_EQ(CountWrong(mean, [&](int64_t i) { return SumOfRanks(local * kNumel + i) / kSize; }), 0);
      const auto rank_at = [&](int64_t index) { return index == local ? rank : other; };
      EXPECT_EQ(CountWrong(gathered, [&](int64_t i) { return Value(rank_at(i / kNumel), i % kNumel); }), 0);
      EXPECT_EQ(CountWrong(reduced, [&](int64_t i) { return Value(rank, i) + Value(other, i); }), 0);
      EXPECT_EQ(CountWrong(copied, [&](int64_t i) { return Value(rank_at(1), i); }), 0);
      // Its memory is the host's own.
      EXPECT_FALSE(groups[static_cast<size_t>(rank)]->AllocateShared(Cpu(), {1}, DType::kF32).defined());
      const Tensor common = group.AllocateShared(Cpu(), {2}, DType::kF32);
      ASSERT_EQ(common.defined(), !follow);
      if (follow) return;
      common.data<float>()[local] = static_cast<float>(rank);
      group.Barrier();
      EXPECT_EQ(common.data<float>()[1 - local], static_cast<float>(other));
    });
  }
}

// It begins when this rank does, which then waits for those of the other host, or for the one of its own.
TEST(HierarchicalTest, TheTimeOfACollectiveIsThatOfAllItsParts) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  constexpr int64_t kNumel = 1000;
  auto groups = Connect("shm", [](int rank) { return rank / (kSize / kHosts); });
  RunRanks(kSize, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    HostGroup host(group);
    const Tensor all = Tensor::Zeros(Cpu(), {kSize * kNumel}, DType::kF32);
    const Tensor part = Tensor::Zeros(Cpu(), {kNumel}, DType::kF32);
    const Tensor chunks = Tensor::Zeros(Cpu(), {24 << 18}, DType::kF32);  // more than go at once
    const std::vector<std::function<Work()>> collectives = {
        [&] { return group.AllReduce(all, ReduceOp::kSum); },
        [&] { return group.AllReduce(part.Slice(0, {1}), ReduceOp::kSum); },
        [&] { return group.ReduceScatter(all, part, ReduceOp::kSum); },
        [&] { return group.AllGather(part, all); },
        [&] { return group.Broadcast(part, 3); },
        [&] { return group.Broadcast(chunks, 3); },
        [&] { return group.Issue({}); },
        [&] { return host.ReduceScatter(all.Slice(0, {2 * kNumel}), part, ReduceOp::kSum); }};
    for (const bool is_late : {rank >= kSize / kHosts, rank % 2 == 1}) {
      for (size_t i = 0; i < collectives.size(); ++i) {
        group.Barrier();
        if (is_late) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        const int64_t begin_ns = Now();
        const Interval interval = collectives[i]().interval();
        EXPECT_GE(interval.start_ns, begin_ns) << i;
        if (!is_late) {
          EXPECT_GE(interval.end_ns - interval.start_ns, 100'000'000) << i;
        }
      }
    }
  });
}

TEST(HierarchicalTest, OneRankOnEachHostIsNoGroup) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  auto groups = Connect("shm", [](int rank) { return rank; });
  EXPECT_EQ(ErrorOf<InvalidInput>([&] { HostGroup group(*groups[0]); }),
            "backend hierarchical: there is one rank on each host, expected several");
}

// Ranks 0, 2, 3 and 5 of six.
TEST(HierarchicalTest, MessagesNameRanksOfAPartAsTheWholeDoes) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  const TemporaryDirectory directory;
  const auto errors = ErrorsOfRanks(6, [&](int rank) {
    const World world = JoinJob({.rank = rank,
                                 .size = 6,
                                 .local_size = 0,
                                 .rendezvous = "file://" + directory.path(),
                                 .host = Join("host", rank / 3)},
                                {}, std::chrono::seconds(60));
    if (rank % 3 == 1) return;
    GroupOptions options;
    options.backend = "hierarchical";
    options.world = PartOf(world, {0, 2, 3, 5});
    const auto part = MakeProcessGroup(options, Cpu());
    part->Abort();
    part->Barrier();
  });
  for (const size_t rank : {0u, 2u, 3u, 5u})
    EXPECT_EQ(errors[rank].substr(0, 18), Join("rank ", rank, ": barrier #0")) << errors[rank];
}

// Two hosts divide a chunk between them, so it is twice as long as one host's.
TEST(HierarchicalTest, ChunksGrowWithTheNumberOfHosts) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  const TemporaryDirectory directory;
  RunRanks(kSize, [&](int rank) {
    GroupOptions options;
    options.backend_options = {{"inner", "shm"}, {"outer", "gloo"}};
    options.world = {.rank = rank,
                     .size = kSize,
                     .rendezvous = "file://" + directory.path(),
                     .host = Join("host", rank / 2)};
    RecordingProcessGroup* outer = nullptr;
    const auto group = MakeHierarchicalGroup(options, [&](const GroupOptions& part, const auto&) {
      auto made = std::make_unique<RecordingProcessGroup>(MakeProcessGroup(part, Cpu()));
      outer = made.get();  // the last one
      return made;
    });
    const auto num_chunks = [&](int64_t bytes) {
      group->AllReduce(Tensor::Zeros(Cpu(), {bytes / 4}, DType::kF32), ReduceOp::kSum).Wait();
      const size_t on_link = outer->entries().size();
      outer->Clear();
      return on_link;
    };
    EXPECT_EQ(num_chunks(int64_t{4} << 20), 1u);
    EXPECT_EQ(num_chunks((int64_t{4} << 20) + 1024), 2u);
  });
}

// More chunks than the group has places for, of sums that are twice as long as what is reduced.
TEST(HierarchicalTest, ALongReduceScatterOfBF16IsSummedInF32) {
  if (OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
  auto groups = Connect("shm", [](int rank) { return rank / 2; });
  RunRanks(kSize, [&](int rank) {
    constexpr int64_t kNumel = 1'500'000;
    const Tensor input = Tensor::Zeros(Cpu(), {kSize * kNumel}, DType::kBF16);
    const Tensor output = Tensor::Zeros(Cpu(), {kNumel}, DType::kBF16);
    // Above 256 the numbers of bf16 are 2 apart: a host's sum of 257 must not be rounded.
    const auto value = [](int of_rank, int64_t i) {
      return of_rank == 0 ? 256.0f : static_cast<float>(i % 2);
    };
    for (int64_t i = 0; i < input.numel(); ++i) input.data<model::BF16>()[i] = model::BF16(value(rank, i));
    groups[static_cast<size_t>(rank)]->ReduceScatter(input, output, ReduceOp::kSum).Wait();
    int64_t wrong = 0;
    for (int64_t i = 0; i < kNumel; ++i) {
      const auto expected = model::BF16(256.0f + 3 * value(1, rank * kNumel + i));
      wrong += output.data<model::BF16>()[i].bits != expected.bits ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0);
    groups[static_cast<size_t>(rank)].reset();
  });
}

TEST(RanksByHostTest, InTheOrderOfTheLowestRanks) {
  EXPECT_EQ(RanksByHost({"b", "a", "b", "c", "c", "a"}),
            (std::vector<std::vector<int>>{{0, 2}, {1, 5}, {3, 4}}));
}

TEST(RanksByHostTest, HostsWithUnequalNumbersAreRefused) {
  const auto errors = ErrorsOfRanks(1, [](int) { RanksByHost({"a", "b", "b", "a", "b"}); });
  EXPECT_EQ(errors[0],
            "backend hierarchical: 2 ranks are on the host of rank 0, 3 on that of rank 1, expected equally "
            "many on every host");
}

}  // namespace
}  // namespace gradsync::comm
