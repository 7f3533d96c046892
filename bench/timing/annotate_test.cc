#include "bench/timing/annotate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/timing/op_recorder.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;

// Writes down what it is told.
class ListSink : public RangeSink {
 public:
  void Push(RangeKind kind, std::string_view name) override {
    lines.push_back(Join("push ", Name(kind), " ", name));
  }
  void Pop() override { lines.push_back("pop"); }
  uint64_t Start(RangeKind kind, std::string_view name) override {
    lines.push_back(Join("start ", ++ranges_, " ", Name(kind), " ", name));
    return ranges_;
  }
  void Stop(uint64_t range) override { lines.push_back(Join("end ", range)); }

  std::vector<std::string> lines;

 private:
  uint64_t ranges_ = 0;
};

TEST(AnnotateTest, OperationsNestBehindARecorder) {
  ListSink sink;
  OpRecorder recorder(*model::CpuDevice(), &sink);
  recorder.Begin("attention");
  recorder.Begin("softmax");
  recorder.End();
  recorder.End();
  model::Tracer& alone = sink;
  alone.Begin("linear");
  alone.End();
  EXPECT_THAT(sink.lines,
              ElementsAre("push op attention", "push op softmax", "pop", "pop", "push op linear", "pop"));
  EXPECT_EQ(recorder.ops().size(), 2u);
}

TEST(AnnotateTest, ACollectiveEndsWhenItHasBeenWaitedFor) {
  ListSink sink;
  const auto groups = comm::MakeLocalGroups(1);
  const auto group = AnnotateCollectives(*groups.front(), sink);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->backend(), "local");
  const model::Tensor tensor = model::Tensor::From<float>(model::CpuDevice(), {2}, std::vector<float>{1, 2});
  comm::Work first = group->AllReduce(tensor, comm::ReduceOp::kMean);
  comm::Work second = group->Broadcast(tensor, 0);
  group->Barrier();
  second.Wait();
  first.Wait();
  first.Wait();
  EXPECT_THAT(sink.lines,
              ElementsAre("start 1 collective all_reduce 8 bytes", "start 2 collective broadcast 8 bytes",
                          "push collective barrier", "pop", "end 2", "end 1"));
  EXPECT_EQ(tensor.ToVector<float>(), (std::vector<float>{1, 2}));
}

TEST(AnnotateTest, AllocatesWhereTheOtherGroupDoes) {
  ListSink sink;
  const auto groups = comm::MakeGroups("shm", 2);
  comm::RunRanks(2, [&](int rank) {
    const auto group = AnnotateCollectives(*groups[static_cast<size_t>(rank)], sink);
    const model::DevicePtr device = model::CpuDevice();
    EXPECT_EQ(group->Allocate(device, {100}, model::DType::kF32).numel(), 100);
    EXPECT_EQ(device->allocator().stats().source_allocations, 0) << "it is shared memory";
  });
}

TEST(AnnotateTest, ACollectiveThatNobodyWaitsForEndsToo) {
  ListSink sink;
  const auto groups = comm::MakeLocalGroups(1);
  const auto group = AnnotateCollectives(*groups.front(), sink);
  const model::Tensor tensor = model::Tensor::From<float>(model::CpuDevice(), {1}, std::vector<float>{1});
  group->AllReduce(tensor, comm::ReduceOp::kSum);
  EXPECT_THAT(sink.lines, ElementsAre("start 1 collective all_reduce 4 bytes", "end 1"));
}

}  // namespace
}  // namespace gradsync::bench
