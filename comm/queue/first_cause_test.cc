#include "comm/queue/first_cause.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"

namespace gradsync::comm {
namespace {

using Failures = std::map<int, std::function<void(FirstCause& cause)>>;

std::function<void(FirstCause&)> TimeoutError(int peer) {
  return [peer](FirstCause& cause) {
    cause.Write(PeerError(peer, "rank " + std::to_string(peer) + " is late"));
  };
}

std::function<void(FirstCause&)> ClosedError(int peer) {
  return [peer](FirstCause& cause) {
    cause.Write(PeerClosed(peer, "rank " + std::to_string(peer) + " has gone"));
  };
}

constexpr int kSize = 4;

std::vector<World> Join() {
  const TemporaryDirectory directory;
  std::vector<World> worlds(kSize);
  RunRanks(kSize, [&](int rank) {
    worlds[static_cast<size_t>(rank)] =
        JoinJob({.rank = rank, .size = kSize, .rendezvous = "file://" + directory.path()}, {},
                std::chrono::seconds(30));
  });
  return worlds;
}

// What those of four ranks report that fail. With `rank0_leaves`, rank 0 and its store are gone before.
std::vector<std::string> Reports(const Failures& failures, bool rank0_leaves = false) {
  std::vector<World> worlds = Join();
  std::vector<std::string> reports(kSize);
  if (rank0_leaves) worlds[0].job.reset();
  RunRanks(kSize, [&](int rank) {
    const auto failure = failures.find(rank);
    if (failure == failures.end()) return;
    FirstCause cause(worlds[static_cast<size_t>(rank)]);
    failure->second(cause);
    reports[static_cast<size_t>(rank)] = cause.Read();
  });
  return reports;
}

TEST(FirstCauseTest, IsWhomThoseAreBlamedForBlame) {
  // 3 stands still, 2 waits for it, and so on.
  const auto reports = Reports({{0, TimeoutError(1)}, {1, ClosedError(2)}, {2, TimeoutError(3)}});
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(reports[static_cast<size_t>(rank)], "rank 3 is late");
}

TEST(FirstCauseTest, IsARanksOwnFailure) {
  const auto fails = [](FirstCause& cause) { cause.Write(std::runtime_error("out of memory")); };
  const auto reports = Reports({{0, ClosedError(1)}, {1, ClosedError(2)}, {2, fails}});
  EXPECT_EQ(reports[2], "out of memory");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(reports[static_cast<size_t>(rank)], "rank 2 failed: out of memory");
  }
}

TEST(FirstCauseTest, OnlyARanksFirstFailureCounts) {
  const auto reports = Reports({{0, TimeoutError(1)}, {1, [](FirstCause& cause) {
                                                         TimeoutError(3)(cause);
                                                         ClosedError(0)(cause);
                                                       }}});
  EXPECT_EQ(reports[0], "rank 3 is late");
  EXPECT_EQ(reports[1], "rank 3 is late");
}

TEST(FirstCauseTest, WhoBlameEachOtherReportWhatTheySaw) {
  const auto reports = Reports({{1, ClosedError(2)}, {2, ClosedError(1)}});
  EXPECT_EQ(reports[1], "rank 2 has gone");
  EXPECT_EQ(reports[2], "rank 1 has gone");
}

// MPI does not say which rank it waits for. Who fails by itself says so.
TEST(FirstCauseTest, IsARankWithoutANoteIfNobodyKnowsWhoIsToBlame) {
  const auto somebody = [](FirstCause& cause) { cause.Write(PeerError(kSomebody, "another rank is late")); };
  auto reports = Reports({{0, somebody}, {1, somebody}, {3, somebody}});
  for (const size_t rank : {0, 1, 3}) EXPECT_EQ(reports[rank], "rank 2 is late");
  const auto fails = [](FirstCause& cause) { cause.Write(std::runtime_error("out of memory")); };
  reports = Reports({{0, somebody}, {1, somebody}, {3, fails}});
  for (const size_t rank : {0, 1}) EXPECT_EQ(reports[rank], "rank 3 failed: out of memory");
  reports = Reports({{0, somebody}, {1, somebody}, {2, somebody}, {3, somebody}});
  for (const std::string& report : reports) EXPECT_EQ(report, "another rank is late");
}

TEST(FirstCauseTest, IsARank0ThatTookTheStoreAlong) {
  const auto reports =
      Reports({{1, ClosedError(0)}, {2, ClosedError(1)}, {3, TimeoutError(1)}}, /*rank0_leaves=*/true);
  EXPECT_EQ(reports[1], "rank 0 closed the connection");
  EXPECT_EQ(reports[2], "rank 0 closed the connection");
  EXPECT_EQ(reports[3], "rank 1 is late") << "which it saw itself";
}

// Rank 1 fails because of rank 0, which has failed because of rank 2 and left with the store.
TEST(FirstCauseTest, OutlivesTheStore) {
  auto worlds = Join();
  {
    FirstCause cause(worlds[0]);
    ClosedError(2)(cause);
    EXPECT_EQ(cause.Read(), "rank 2 has gone");
  }
  worlds[0].job.reset();
  FirstCause cause(worlds[1]);
  ClosedError(0)(cause);
  EXPECT_EQ(cause.Read(), "rank 2 has gone");
}

TEST(FirstCauseTest, IsNotARank0ThatLeavesLater) {
  auto worlds = Join();
  FirstCause cause(worlds[1]);
  ClosedError(2)(cause);
  worlds[0].job.reset();
  EXPECT_EQ(cause.Read(), "rank 2 has gone");
}

// Rank 3 sees that rank 2 has gone, which rank 0 made fail, and asks when rank 0 has taken the store along.
TEST(FirstCauseTest, IsKnownBeforeTheStoreGoes) {
  auto worlds = Join();
  FirstCause of_rank2(worlds[2]), of_rank3(worlds[3]);
  ClosedError(0)(of_rank2);
  ClosedError(2)(of_rank3);
  worlds[0].job.reset();
  EXPECT_EQ(of_rank3.Read(), "rank 0 has gone");
}

TEST(FirstCauseTest, WithoutAJobIsWhatTheRankSaw) {
  FirstCause cause(World{.rank = 0, .size = 2});
  ClosedError(1)(cause);
  EXPECT_EQ(cause.Read(), "rank 1 has gone");
}

}  // namespace
}  // namespace gradsync::comm
