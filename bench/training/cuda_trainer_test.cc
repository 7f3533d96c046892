// A traced step on a GPU, whose single waits the host does not see.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "bench/timing/op_recorder.h"
#include "bench/training/trainer_test.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

TEST(CudaTrainerTest, AnUpdateIncludesItsWaits) {
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(std::make_shared<model::CudaDevice>(0));
  auto groups = comm::MakeGroups("gloo", devices, std::chrono::seconds(60));
  comm::RunRanks(2, [&](int number) {
    const auto r = static_cast<size_t>(number);
    comm::RecordingProcessGroup group(std::move(groups[r]));
    Trainer trainer(MicroTransformer(devices[r]), {}, devices[r], group, CpuClock(ThreadIds()));
    trainer.Restart();
    const auto strategy = trainer.NewStrategy("zero1", {}, group);
    OpRecorder recorder(*devices[r]);
    const model::Batch batch = BatchOf(model::CpuDevice(), number);
    const StepResult result = trainer.Step(
        {*strategy, group}, {batch.inputs.To(devices[r]), batch.targets.To(devices[r])}, &recorder);
    EXPECT_FALSE(group.waits().empty());
    EXPECT_TRUE(result.waits.empty());
    const StepMarks& marks = result.marks.front();
    EXPECT_EQ(result.times.optimizer, marks.Between(Mark::kSyncEnd, Mark::kStepEnd));
    EXPECT_EQ(result.times.sync_wait, marks.Between(Mark::kBackwardEnd, Mark::kSyncEnd));
  });
}

}  // namespace
}  // namespace gradsync::bench
