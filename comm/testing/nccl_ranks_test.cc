#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/factory.h"
#include "comm/processes/launch.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/tensor.h"
#include "third_party/gpu_test_main.h"

// Two ranks as two processes, which may share a GPU. This program starts itself again: a process that finds
// itself to be a rank plays the role that its argument names, and exits with 0 if all was as it should be.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

constexpr std::chrono::milliseconds kShortTimeout{10000};

// Throws unless the sum, mean, maximum and parts of what two ranks hold are right.
void CheckCollectives(ProcessGroup& group, const model::DevicePtr& device) {
  const int rank = group.rank();
  const auto expect = [&](const Tensor& tensor, float value, const char* what) {
    Require(tensor.ToVector<float>() == std::vector<float>(static_cast<size_t>(tensor.numel()), value), what,
            ": wrong");
  };
  const auto filled = [&](int64_t numel, float value) {
    return Tensor::From<float>(device, {numel}, std::vector<float>(static_cast<size_t>(numel), value));
  };
  for (const int64_t numel : {1, 1000, 3'000'001}) {
    Tensor tensor = filled(numel, static_cast<float>(rank + 1));
    group.AllReduce(tensor, ReduceOp::kSum).Wait();
    expect(tensor, 3, "sum");
    tensor = filled(numel, static_cast<float>(rank + 1));
    group.AllReduce(tensor, ReduceOp::kMean).Wait();
    expect(tensor, 1.5, "mean");
    tensor = filled(numel, static_cast<float>(rank + 1));
    group.AllReduce(tensor, ReduceOp::kMax).Wait();
    expect(tensor, 2, "max");
    tensor = filled(numel, static_cast<float>(rank + 1));
    group.Broadcast(tensor, 1).Wait();
    expect(tensor, 2, "broadcast");
    const Tensor whole = filled(2 * numel, static_cast<float>(rank + 1));
    const Tensor part = whole.Slice(rank * numel, {numel});
    group.ReduceScatter(whole, part, ReduceOp::kSum).Wait();
    expect(part, 3, "reduce_scatter");
    const Tensor gathered = filled(2 * numel, 0);
    group.AllGather(filled(numel, static_cast<float>(rank + 1)), gathered).Wait();
    expect(gathered.Slice(0, {numel}), 1, "all_gather from rank 0");
    expect(gathered.Slice(numel, {numel}), 2, "all_gather from rank 1");
  }
  group.Barrier();
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const CollectiveError& error) {
    return error.what();
  }
  return "no error";
}

void RequireBegins(const std::string& text, const std::string& beginning) {
  Require(text.find(beginning) == 0, "found '", text, "', expected '", beginning, "...'");
}

void RequireContains(const std::string& text, const std::string& part) {
  Require(text.find(part) != std::string::npos, "found '", text, "', expected '", part, "' in it");
}

// Rank 1 stays away from the last all-reduce.
void CheckDeadline(ProcessGroup& group, const model::DevicePtr& device) {
  const Tensor tensor = Tensor::Zeros(device, {1000}, DType::kF32);
  group.AllReduce(tensor, ReduceOp::kSum).Wait();
  group.Barrier();
  if (group.rank() == 1) {
    std::this_thread::sleep_for(2 * kShortTimeout);
    return;
  }
  Work work = group.AllReduce(tensor, ReduceOp::kSum);
  work.Wait();  // does not block, so it cannot know
  const std::string first = ErrorOf([&] { work.interval(); });
  RequireBegins(first, "rank 0: all_reduce #2 of 4000 bytes (nccl) failed after ");
  RequireContains(first, "no progress for 10000 ms");
  Require(ErrorOf([&] { work.Wait(); }) == first, "another error at the second call");
  const std::string later = ErrorOf([&] { group.AllReduce(tensor, ReduceOp::kSum).Wait(); });
  RequireBegins(later,
                "rank 0: all_reduce #3 of 4000 bytes (nccl) failed after 0.0 s: all_reduce #2 had failed");
  RequireContains(ErrorOf([&] { group.Barrier(); }), "barrier #4");
}

int RunRole(const World& world, const std::string& role) {
  try {
    const int gpu = world.local_rank % std::max(1, model::CudaDeviceCount());
    const auto device = std::make_shared<model::CudaDevice>(gpu);
    GroupOptions options;
    options.backend = "nccl";
    options.world = world;
    if (role != "collectives") options.timeout = kShortTimeout;
    const auto group = MakeProcessGroup(options, device);
    if (role == "collectives") CheckCollectives(*group, device);
    if (role == "deadline") CheckDeadline(*group, device);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s: %s\n", world.rank, role.c_str(), error.what());
    return 1;
  }
}

int Launch(std::string role) {
  LaunchOptions options;
  options.world_size = 2;
  std::string program = "nccl_ranks_test";
  char* argv[] = {program.data(), role.data()};
  return LaunchSelf(options, std::span<char* const>(argv));
}

class NcclRanksTest : public testing::Test {
 protected:
  NcclRanksTest() { setenv("GRADSYNC_NCCL_SHARE_GPU", model::CudaDeviceCount() < 2 ? "1" : "0", 1); }
};

TEST_F(NcclRanksTest, CollectivesAreRight) { EXPECT_EQ(Launch("collectives"), 0); }

TEST_F(NcclRanksTest, ARankThatDoesNotComeEndsInAnError) { EXPECT_EQ(Launch("deadline"), 0); }

}  // namespace
}  // namespace gradsync::comm

int main(int argc, char** argv) {
  using gradsync::comm::WorldFromEnvironment;
  if (const auto world = WorldFromEnvironment(); world && argc == 2) {
    return gradsync::comm::RunRole(*world, argv[1]);
  }
  return RunGpuTests(argc, argv);
}
