#include "comm/queue/recording_process_group.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

// Time that intervals share counts once. What lies outside the window does not count.
TEST(BusyTest, IsTheTimeInIntervals) {
  struct Case {
    std::vector<Interval> intervals;
    Interval window;
    int64_t busy_ns;
  };
  for (const auto& [intervals, window, busy_ns] : std::vector<Case>{
           {{}, {0, 100}, 0},
           {{{10, 20}, {30, 35}}, {0, 100}, 15},
           {{{40, 60}, {10, 30}, {20, 25}, {55, 70}, {10, 30}}, {0, 100}, 20 + 30},
           {{{10, 20}, {20, 30}}, {0, 100}, 20},
           {{{0, 15}, {18, 40}, {50, 60}}, {10, 30}, 5 + 12},
           {{{0, 15}, {18, 40}, {50, 60}}, {41, 49}, 0},
           {{{0, 15}, {18, 40}, {50, 60}}, {30, 10}, 0},
       }) {
    EXPECT_EQ(BusyNs(intervals, window.start_ns, window.end_ns), busy_ns) << busy_ns;
  }
}

TEST(RecordingTest, AllocatesWhereTheOtherGroupDoes) {
  auto groups = MakeGroups("shm", 2);
  RunRanks(2, [&](int rank) {
    RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    const model::DevicePtr device = model::CpuDevice();
    const Tensor tensor = group.Allocate(device, {100}, DType::kF32);
    EXPECT_EQ(tensor.numel(), 100);
    EXPECT_EQ(device->allocator().stats().source_allocations, 0) << "it is shared memory";
  });
}

TEST(RecordingTest, LogsEveryCollective) {
  auto groups = MakeLocalGroups(2);
  RunRanks(2, [&](int rank) {
    RecordingProcessGroup group(std::move(groups[static_cast<size_t>(rank)]));
    const auto device = model::CpuDevice();
    const Tensor one = Tensor::Zeros(device, {3}, DType::kF32);
    const Tensor two = Tensor::Zeros(device, {6}, DType::kF32);
    const Tensor ids = Tensor::Zeros(device, {5}, DType::kI64);
    group.AllReduce(one, ReduceOp::kMax);
    group.Broadcast(ids, 1);
    group.ReduceScatter(two, one, ReduceOp::kMean);
    group.AllGather(one, two);
    group.Barrier();

    ASSERT_EQ(group.entries().size(), 5u);
    const auto& entries = group.Finish();
    const int64_t end_ns = Now();
    using Entry = RecordingProcessGroup::Entry;
    const auto check = [&](const Entry& entry, int64_t sequence, Collective collective, int64_t bytes,
                           DType dtype) {
      EXPECT_EQ(entry.sequence, sequence);
      EXPECT_EQ(entry.collective, collective);
      EXPECT_EQ(entry.bytes, bytes);
      EXPECT_EQ(entry.dtype, dtype);
      EXPECT_GT(entry.issue_ns, 0);
      EXPECT_LE(entry.issue_ns, entry.interval.start_ns);
      EXPECT_LE(entry.interval.start_ns, entry.interval.end_ns);
      EXPECT_LE(entry.interval.end_ns, end_ns);
    };
    check(entries[0], 0, Collective::kAllReduce, 12, DType::kF32);
    check(entries[1], 1, Collective::kBroadcast, 40, DType::kI64);
    check(entries[2], 2, Collective::kReduceScatter, 24, DType::kF32);
    check(entries[3], 3, Collective::kAllGather, 24, DType::kF32);
    check(entries[4], 4, Collective::kBarrier, 0, DType::kU8);
    EXPECT_EQ(entries[0].op, ReduceOp::kMax);
    EXPECT_EQ(entries[1].root, 1);
    EXPECT_EQ(entries[2].op, ReduceOp::kMean);
    EXPECT_EQ(Intervals(entries).size(), 5u);

    group.Clear();
    EXPECT_TRUE(group.entries().empty());
    group.AllReduce(one, ReduceOp::kSum);
    EXPECT_EQ(group.Finish().at(0).sequence, 5);
  });
}

// 2 ms until a collective is there.
class SlowGroup : public GroupDecorator {
 public:
  using GroupDecorator::GroupDecorator;

  Work Issue(Request request) override {
    struct Slow : Work::State {
      void Wait() override { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
      Interval interval() override { return {}; }
      bool Done() override { return true; }
    };
    GroupDecorator::Issue(std::move(request)).Wait();
    return Work(std::make_shared<Slow>());
  }
};

TEST(RecordingTest, MeasuresWaitsAndNotWhatItWaitsForItself) {
  RecordingProcessGroup group(std::make_unique<SlowGroup>(std::move(MakeLocalGroups(1).front())));
  const Tensor tensor = Tensor::Zeros(model::CpuDevice(), {1}, DType::kF32);
  Work work = group.AllReduce(tensor, ReduceOp::kSum);
  EXPECT_EQ(group.waited_ns(), 0);
  group.Finish();
  EXPECT_EQ(group.waited_ns(), 0);
  work.Wait();
  EXPECT_GE(group.waited_ns(), 2'000'000);
  group.Clear();
  EXPECT_GE(group.waited_ns(), 2'000'000);
}

TEST(RecordingTest, KeepsEachWait) {
  RecordingProcessGroup group(std::make_unique<SlowGroup>(std::move(MakeLocalGroups(1).front())));
  const Tensor tensor = Tensor::Zeros(model::CpuDevice(), {2}, DType::kF32);
  Work first = group.AllReduce(tensor, ReduceOp::kSum);
  Work second = group.AllGather(tensor, tensor);
  EXPECT_TRUE(group.waits().empty());
  const int64_t before_ns = Now();
  second.Wait();
  first.Wait();
  first.Wait();
  group.Finish();
  ASSERT_EQ(group.waits().size(), 3u);
  int64_t last_ns = before_ns, sum_ns = 0, gathers_ns = 0;
  for (const RecordingProcessGroup::WaitEntry& wait : group.waits()) {
    EXPECT_LE(last_ns, wait.interval.start_ns);
    last_ns = wait.interval.end_ns;
    const int64_t duration_ns = wait.interval.end_ns - wait.interval.start_ns;
    EXPECT_GE(duration_ns, 2'000'000);
    sum_ns += duration_ns;
    if (wait.collective == Collective::kAllGather) gathers_ns += duration_ns;
  }
  EXPECT_LE(last_ns, Now());
  EXPECT_EQ(sum_ns, group.waited_ns());
  EXPECT_EQ(gathers_ns, group.waited_ns(Collective::kAllGather));
  EXPECT_EQ(group.waits()[0].sequence, 1);
  EXPECT_EQ(group.waits()[1].sequence, 0);
  EXPECT_EQ(group.waits()[2].sequence, 0);

  group.Clear();
  EXPECT_TRUE(group.waits().empty());
  group.AllReduce(tensor, ReduceOp::kSum).Wait();
  EXPECT_EQ(group.waits().at(0).sequence, 2);
}

TEST(RecordingTest, AWorkMayOutliveTheGroup) {
  Work work;
  {
    RecordingProcessGroup group(std::make_unique<SlowGroup>(std::move(MakeLocalGroups(1).front())));
    work = group.AllReduce(Tensor::Zeros(model::CpuDevice(), {1}, DType::kF32), ReduceOp::kSum);
  }
  work.Wait();  // under a sanitizer
}

// Says which collectives are within one of how many hosts.
TEST(RecordingTest, KnowsWhatStaysWithinAHost) {
  struct Silent : ProcessGroup {
    Silent(int size, ProcessGroup* host) : ProcessGroup(0, size), host_(host) {}
    std::string_view backend() const override { return "silent"; }
    ProcessGroup* host_group() override { return host_; }
    Work Issue(Request) override { return {}; }
    ProcessGroup* const host_;
  };
  Silent host(2, nullptr);
  RecordingProcessGroup group(std::make_unique<Silent>(6, &host));
  HostGroup(group).Barrier();
  group.Barrier();
  EXPECT_EQ(group.entries()[0].num_hosts, 3);
  EXPECT_EQ(group.entries()[1].num_hosts, 1);
}

TEST(RecordingTest, PassesOnTheInnerGroup) {
  auto groups = MakeLocalGroups(1);
  const ProcessGroup& inner = *groups[0];
  RecordingProcessGroup group(std::move(groups[0]));
  EXPECT_EQ(group.rank(), inner.rank());
  EXPECT_EQ(group.size(), inner.size());
  EXPECT_EQ(group.backend(), "local");
  EXPECT_EQ(group.facts().channels, inner.facts().channels);
}

TEST(RecordingTest, LogsNothingForBadArguments) {
  auto groups = MakeLocalGroups(1);
  RecordingProcessGroup group(std::move(groups[0]));
  EXPECT_THROW(group.AllReduce(Tensor(), ReduceOp::kSum), InvalidInput);
  EXPECT_TRUE(group.entries().empty());
}

}  // namespace
}  // namespace gradsync::comm
