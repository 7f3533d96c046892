#include "comm/queue/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/testing/errors.h"

// Which thread runs what. The order of issue, and failures, are those of conformance_test and failure_test.
namespace gradsync::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kCaller = RequestQueueOptions::kCaller;

class RequestQueueTest : public testing::Test {
 protected:
  // A queue of one thread that leaves to the caller what the caller waits for at once.
  RequestQueueOptions Options() {
    return {.backend = "test",
            .run =
                [this](const Request& request, int thread) {
                  const std::lock_guard lock(mutex_);
                  sequences_.push_back(request.sequence);
                  threads_.push_back(thread);
                },
            .abort = [this] { is_aborted_ = true; },
            .first_cause = std::make_shared<FirstCause>(World()),
            .begin = [](const Request& request) { return request.waits == Waits::kAtOnce; }};
  }
  static Request AtOnce() { return {.collective = Collective::kBroadcast, .waits = Waits::kAtOnce}; }
  static Request Later() { return {.collective = Collective::kBroadcast}; }

  std::atomic<bool> is_aborted_ = false;
  std::mutex mutex_;
  std::vector<int64_t> sequences_;  // in the order in which they ran
  std::vector<int> threads_;
};

// The thread has the time to take it, if something has woken it. When it starts it looks for work by itself.
TEST_F(RequestQueueTest, ACallerThatWaitsAtOnceRunsItsOwn) {
  RequestQueue queue(Options());
  for (int i = 0; i < 40; ++i) {
    Work work = queue.Issue(AtOnce());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    work.Wait();
  }
  EXPECT_GE(std::ranges::count(threads_, kCaller), 35);
}

TEST_F(RequestQueueTest, WhatNobodyWaitsForRunsOnAThread) {
  RequestQueue queue(Options());
  for (int i = 0; i < 20; ++i) queue.Issue(Later()).Wait();
  EXPECT_EQ(threads_, std::vector<int>(20, 0));
}

// Now and then the caller comes first.
TEST_F(RequestQueueTest, WaitersHelpIfTheyMay) {
  RequestQueueOptions options = Options();
  options.waiters_help = true;
  RequestQueue queue(options);
  const auto deadline = DeadlineInAMinute();
  while (std::ranges::count(threads_, kCaller) == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    queue.Issue(Later()).Wait();
  }
}

// Behind others, it takes its turn.
TEST_F(RequestQueueTest, TheOrderOfIssueIsKept) {
  RequestQueue queue(Options());
  std::vector<Work> works;
  for (int i = 0; i < 60; ++i) works.push_back(queue.Issue(i % 3 == 0 ? AtOnce() : Later()));
  for (Work& work : works) work.Wait();
  std::vector<int64_t> expected(60);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int64_t>(i);
  EXPECT_EQ(sequences_, expected);
}

// Although another thread is free.
TEST_F(RequestQueueTest, WhatIsWaitedForAtOnceRunsWhenAllBeforeItAreDone) {
  RequestQueueOptions options = Options();
  options.num_threads = 2;
  std::atomic<int> num_done = 0;
  options.run = [&](const Request& request, int) {
    if (request.waits == Waits::kAtOnce) {
      EXPECT_EQ(num_done, 1);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ++num_done;
  };
  RequestQueue queue(options);
  Work before = queue.Issue(Later());
  queue.Issue(AtOnce()).Wait();
  EXPECT_EQ(num_done, 2);
  before.Wait();
}

// What was left to the caller does not hold up what is issued behind it.
TEST_F(RequestQueueTest, ACallerThatGoesOnIsNotWaitedFor) {
  RequestQueue queue(Options());
  const Work left = queue.Issue(AtOnce());
  queue.Issue(Later()).Wait();
  EXPECT_THAT(sequences_, ElementsAre(0, 1));
  EXPECT_THAT(threads_, ElementsAre(0, 0));
  EXPECT_TRUE(left.Done());
}

// What the other ranks wait for is only done for a request that may run at once: not behind another, not
// before what it comes after, and not before it is prepared.
TEST_F(RequestQueueTest, WhatCannotRunYetIsNotBegun) {
  struct Unfinished : Work::State {
    void Wait() override {
      while (!is_done) std::this_thread::yield();
    }
    Interval interval() override {
      Wait();
      return {};
    }
    bool Done() override { return is_done; }
    std::atomic<bool> is_done = false;
  };
  std::vector<int64_t> begun;
  RequestQueueOptions options = Options();
  options.begin = [&](const Request& request) {
    begun.push_back(request.sequence);
    return request.waits == Waits::kAtOnce;
  };
  RequestQueue queue(options);
  const auto first = std::make_shared<Unfinished>();
  Request after = AtOnce(), prepared = AtOnce();
  after.after = Work(first);
  prepared.prepare = [] {};
  std::vector<Work> works = {queue.Issue(after), queue.Issue(AtOnce())};
  first->is_done = true;
  for (Work& work : works) work.Wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // The thread leaves the queue.
  queue.Issue(prepared).Wait();
  EXPECT_THAT(begun, ElementsAre());
  const auto deadline = DeadlineInAMinute();
  while (begun.empty()) {  // The thread may not have left the queue yet.
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    queue.Issue(AtOnce()).Wait();
  }
}

// The thread has found the caller at work, and would not look again.
TEST_F(RequestQueueTest, WhatComesWhileACallerRunsIsRunAfterIt) {
  RequestQueueOptions options = Options();
  RequestQueue* made = nullptr;
  Work second;
  options.run = [&](const Request& request, int) {
    if (request.waits == Waits::kLater) return;
    second = made->Issue(Later());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  RequestQueue queue(options);
  made = &queue;
  queue.Issue(AtOnce()).Wait();
  const auto deadline = In(std::chrono::seconds(10));
  while (!second.Done()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST_F(RequestQueueTest, WhatIsDoneOutlivesTheQueue) {
  auto queue = std::make_unique<RequestQueue>(Options());
  Work work = queue->Issue(AtOnce());
  work.Wait();
  queue.reset();
  EXPECT_TRUE(work.Done());
  work.Wait();
}

TEST_F(RequestQueueTest, AFailureOnTheCallerFailsWhatComesLater) {
  RequestQueueOptions options = Options();
  options.run = [](const Request&, int) { throw PeerError(1, "rank 1 is late"); };
  int num_begun = 0;
  options.begin = [&](const Request&) { return ++num_begun > 0; };
  RequestQueue queue(options);
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { queue.Issue(AtOnce()).Wait(); }), HasSubstr("rank 1 is late"));
  EXPECT_TRUE(is_aborted_);
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { queue.Issue(AtOnce()).Wait(); }), HasSubstr("rank 1 is late"));
  EXPECT_EQ(num_begun, 1) << "the connections are closed";
}

TEST_F(RequestQueueTest, AnAbortEndsTheCallersWait) {
  RequestQueueOptions options = Options();
  std::atomic<bool> is_running = false;
  options.run = [&](const Request&, int) {
    is_running = true;
    while (!is_aborted_) std::this_thread::yield();
    throw PeerError(kNobody, "the connections were closed");
  };
  RequestQueue queue(options);
  std::thread other([&] {
    while (!is_running) std::this_thread::yield();
    queue.Abort("given up");
  });
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { queue.Issue(AtOnce()).Wait(); }), HasSubstr("given up"));
  other.join();
}

TEST_F(RequestQueueTest, ACallerThatRunsARequestIsWaitedForWhenTheQueueEnds) {
  RequestQueueOptions options = Options();
  std::atomic<bool> is_running = false, is_left = false;
  std::atomic<int> ran_on = 0;
  options.run = [&](const Request&, int thread) {
    ran_on = thread;
    is_running = true;
    while (!is_aborted_) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_left = true;
  };
  auto queue = std::make_unique<RequestQueue>(options);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its own thread looks for work when it starts
  Work work = queue->Issue(AtOnce());
  std::thread other([&] { work.Wait(); });
  while (!is_running) std::this_thread::yield();
  queue.reset();
  EXPECT_TRUE(is_left);
  EXPECT_EQ(ran_on, kCaller);
  other.join();
}

TEST_F(RequestQueueTest, WhatACallerHasNotRunYetFailsWhenTheQueueEnds) {
  RequestQueueOptions options = Options();
  std::atomic<bool> is_running = false;
  options.run = [&](const Request&, int) {
    is_running = true;
    while (!is_aborted_) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw PeerError(kNobody, "the connections were closed");
  };
  RequestQueue part(options);
  options.divide = [&](const Request&) { return part.Issue(Later()); };
  options.abort = [&] { part.Abort("the whole was destroyed"); };
  auto whole = std::make_unique<RequestQueue>(options);
  std::vector<Work> works = {whole->Issue(Later()), whole->Issue(Later())};
  std::thread other([&] { EXPECT_NE(ErrorOf<CollectiveError>([&] { works[0].Wait(); }), ""); });
  while (!is_running) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the other thread waits
  whole.reset();
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { works[1].Wait(); }), HasSubstr("destroyed"));
  other.join();
}

}  // namespace
}  // namespace gradsync::comm
