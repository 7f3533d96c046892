#include "bench/launch/rank_zero.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "comm/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

// Counts the broadcasts that have arrived.
class CountingGroup : public comm::ProcessGroup {
 public:
  CountingGroup(std::unique_ptr<comm::ProcessGroup> inner, std::atomic<int>& count)
      : inner_(std::move(inner)), count_(count) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string_view backend() const override { return inner_->backend(); }
  int num_threads() const override { return inner_->num_threads(); }
  comm::Work AllReduce(model::Tensor tensor, comm::ReduceOp op) override {
    return inner_->AllReduce(tensor, op);
  }
  comm::Work Broadcast(model::Tensor tensor, int root) override {
    comm::Work work = inner_->Broadcast(tensor, root);
    work.Wait();
    ++count_;
    return work;
  }
  comm::Work ReduceScatter(model::Tensor input, model::Tensor output, comm::ReduceOp op) override {
    return inner_->ReduceScatter(input, output, op);
  }
  comm::Work AllGather(model::Tensor input, model::Tensor output) override {
    return inner_->AllGather(input, output);
  }
  void Barrier() override { inner_->Barrier(); }

 private:
  const std::unique_ptr<comm::ProcessGroup> inner_;
  std::atomic<int>& count_;
};

TEST(OnRankZeroTest, OthersHearOfRankZeroWhileItWorks) {
  auto groups = comm::MakeLocalGroups(2);
  std::atomic<int> heard = 0;
  std::atomic<int> unheard = 0;
  std::atomic<bool> done = false;
  comm::RunRanks(2, [&](int rank) {
    CountingGroup group(std::move(groups[static_cast<size_t>(rank)]), rank == 1 ? heard : unheard);
    OnRankZero(group, model::CpuDevice(), std::chrono::milliseconds(1), [&] {
      EXPECT_EQ(rank, 0);
      while (heard < 3) std::this_thread::yield();
      done = true;
    });
    EXPECT_TRUE(done);
  });
}

TEST(OnRankZeroTest, AFailureEndsTheHeartToo) {
  auto groups = comm::MakeLocalGroups(1);
  EXPECT_THROW(OnRankZero(*groups[0], model::CpuDevice(), std::chrono::milliseconds(1),
                          [] { throw std::runtime_error("no"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace gradsync::bench
