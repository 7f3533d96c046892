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
class CountingGroup : public comm::GroupDecorator {
 public:
  CountingGroup(std::unique_ptr<comm::ProcessGroup> inner, std::atomic<int>& count)
      : GroupDecorator(std::move(inner)), count_(count) {}

  comm::Work Issue(comm::Request request) override {
    const bool is_broadcast = request.collective == comm::Collective::kBroadcast;
    comm::Work work = GroupDecorator::Issue(std::move(request));
    if (!is_broadcast) return work;
    work.Wait();
    ++count_;
    return work;
  }

 private:
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
