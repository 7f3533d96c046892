#include "bench/timing/cpu_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <thread>

namespace gradsync::bench {
namespace {

constexpr int64_t kBusyNs = 20'000'000;

// Keeps the calling thread's processor busy.
void Work() {
  timespec begin{}, now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1'000'000'000 + (now.tv_nsec - begin.tv_nsec) < kBusyNs);
}

// A thread that works when it is told to, once.
class Worker {
 public:
  ~Worker() { done_ = true; }
  void Run() {
    go_ = true;
    while (!finished_) std::this_thread::yield();
  }

 private:
  std::atomic<bool> go_ = false, finished_ = false, done_ = false;
  std::jthread thread_{[this] {
    while (!go_ && !done_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (go_) Work();
    finished_ = true;
    while (!done_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }};
};

TEST(CpuClockTest, TellsCommunicationFromAllOtherThreads) {
  Worker before;
  const std::vector<int> others = ThreadIds();
  EXPECT_GE(others.size(), 2u);
  Worker communication;
  const CpuClock clock(others);
  Worker after;

  CpuTimes begin = clock.Read();
  communication.Run();
  EXPECT_GE((clock.Read() - begin).communication_ns, kBusyNs);

  for (const std::function<void()>& work :
       {std::function<void()>(Work), std::function<void()>([&] { before.Run(); }),
        std::function<void()>([&] { after.Run(); })}) {
    begin = clock.Read();
    work();
    const CpuTimes times = clock.Read() - begin;
    EXPECT_GE(times.compute_ns, kBusyNs);
    EXPECT_LT(times.communication_ns, kBusyNs);
  }
}

TEST(CpuClockTest, AThreadThatHasEndedCountsNothing) {
  const std::vector<int> others = ThreadIds();
  std::optional<Worker> communication(std::in_place);
  const CpuClock clock(others);
  communication->Run();
  communication.reset();
  EXPECT_EQ(clock.Read().communication_ns, 0);
}

}  // namespace
}  // namespace gradsync::bench
