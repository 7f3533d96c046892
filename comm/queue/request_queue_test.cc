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

// The thread has the time to take it, if something has woken it.
TEST_F(RequestQueueTest, ACallerThatWaitsAtOnceRunsItsOwn) {
  RequestQueue queue(Options());
  const auto deadline = Soon();
  while (std::ranges::count(threads_, kCaller) < 20) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    Work work = queue.Issue(AtOnce());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    work.Wait();
  }
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
  const auto deadline = Soon();
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

// What was left to the caller does not hold up what is issued behind it.
TEST_F(RequestQueueTest, ACallerThatGoesOnIsNotWaitedFor) {
  RequestQueue queue(Options());
  const Work left = queue.Issue(AtOnce());
  queue.Issue(Later()).Wait();
  EXPECT_THAT(sequences_, ElementsAre(0, 1));
  EXPECT_THAT(threads_, ElementsAre(0, 0));
  EXPECT_TRUE(left.Done());
}

TEST_F(RequestQueueTest, AFailureOnTheCallerFailsWhatComesLater) {
  RequestQueueOptions options = Options();
  options.run = [](const Request&, int) { throw PeerError(1, "rank 1 is late"); };
  RequestQueue queue(options);
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { queue.Issue(AtOnce()).Wait(); }), HasSubstr("rank 1 is late"));
  EXPECT_TRUE(is_aborted_);
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { queue.Issue(AtOnce()).Wait(); }), HasSubstr("rank 1 is late"));
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

}  // namespace
}  // namespace gradsync::comm
