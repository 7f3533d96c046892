#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/gloo/gloo_process_group.h"
#include "comm/process_group.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"

// A rank's peer issues nothing any more. The rank goes on until its GPU's queue is full, and with it blocks
// in calls of CUDA and NCCL.
namespace gradsync::comm {
namespace {

using model::CudaDevice;
using model::DType;
using model::Tensor;

constexpr std::chrono::milliseconds kTimeout{2000};
// Several times what a queue takes.
constexpr int kTooMany = 5000;

class NcclWatchdogTest : public testing::Test {
 protected:
  // Both ranks have issued one of everything, so that the next calls do not wait for the other rank.
  NcclWatchdogTest() {
    RunRanks(2, [this](int rank) {
      group(rank).AllReduce(tensor(rank), ReduceOp::kSum).Wait();
      group(rank).Barrier();
    });
  }

  ProcessGroup& group(int rank) { return *groups_[static_cast<size_t>(rank)]; }
  const Tensor& tensor(int rank) const { return tensors_[static_cast<size_t>(rank)]; }

  const std::vector<std::shared_ptr<CudaDevice>> devices_ = {std::make_shared<CudaDevice>(0),
                                                             std::make_shared<CudaDevice>(1)};
  const std::vector<Tensor> tensors_ = {Tensor::Zeros(devices_[0], {100}, DType::kF32),
                                        Tensor::Zeros(devices_[1], {100}, DType::kF32)};
  std::vector<std::unique_ptr<ProcessGroup>> groups_ =
      MakeGroups("nccl", {devices_[0], devices_[1]}, kTimeout);
};

// Issues collectives until one fails, and returns why. `wait`: whether the compute stream waits for each, and
// so fills up too.
std::string IssueUntilError(ProcessGroup& group, const Tensor& tensor, bool wait) {
  return ErrorOf<CollectiveError>([&] {
    for (int i = 0; i < kTooMany; ++i) {
      Work work = group.AllReduce(tensor, ReduceOp::kSum);
      if (wait) work.Wait();
    }
    group.Barrier();
  });
}

TEST_F(NcclWatchdogTest, AbortsWhileALaunchIsBlocked) {
  const std::string error = IssueUntilError(group(0), tensor(0), /*wait=*/false);
  EXPECT_NE(error.find("all_reduce #2 had failed: no progress for 2000 ms: a rank is missing, late or stuck"),
            std::string::npos)
      << error;
}

TEST_F(NcclWatchdogTest, AbortsWhileTheComputeStreamIsFull) {
  const std::string error = IssueUntilError(group(0), tensor(0), /*wait=*/true);
  EXPECT_NE(error.find("no progress for 2000 ms: a rank is missing, late or stuck"), std::string::npos)
      << error;
}

// Other threads are not kept waiting by the one that is blocked.
TEST_F(NcclWatchdogTest, OtherThreadsSeeTheFailure) {
  Work first = group(0).AllReduce(tensor(0), ReduceOp::kSum);
  std::string error_of_first;
  std::thread other([&] { error_of_first = ErrorOf<CollectiveError>([&] { first.interval(); }); });
  IssueUntilError(group(0), tensor(0), /*wait=*/false);
  other.join();
  EXPECT_EQ(error_of_first.find("rank 0: all_reduce #2 of 400 bytes (nccl) failed after "), 0u)
      << error_of_first;
}

// gloo takes up a tensor when the compute stream has come to it, which here waits for a collective of nccl's
// that has no peer: as if a GPU hung.
TEST_F(NcclWatchdogTest, GlooDoesNotWaitForEverForItsGpu) {
  group(0).AllReduce(tensor(0), ReduceOp::kSum).Wait();
  const auto gloo =
      MakeGlooGroup({.world = {}, .timeout = std::chrono::milliseconds(300)}, devices_[0], nullptr);
  const std::string error =
      ErrorOf<CollectiveError>([&] { gloo->AllReduce(tensor(0), ReduceOp::kSum).Wait(); });
  EXPECT_NE(error.find("this rank's GPU made no progress for 0.3 s"), std::string::npos) << error;
}

}  // namespace
}  // namespace gradsync::comm
