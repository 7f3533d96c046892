#include "bench/training/programs/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include "comm/processes/host.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

TEST(DisturbanceTest, BusyIsAllThatIsNotIdleOfTheCpusThatRanksMayUse) {
  const auto busy_of = [](const std::set<std::string>& cpus, const std::string& text) {
    std::istringstream lines(text);
    return ReadBusyNs(lines, cpus);
  };
  const std::string text =
      "cpu  5001 5002 5004 9000 9000 5008 5016 5032 5064 5128\ncpu0 5000 0 0 0 0 0 0 0 0 0\n"
      "cpu1 1 2 4 1000 2000 8 16 32 64 128\ncpu2 0 0 0 7 0 0 0 0 0 0\ncpu10 64 0 0 0 0 0 0 0 0 0\nintr 1 2 "
      "3\n";
  const int64_t tick_ns = int64_t{1'000'000'000} / sysconf(_SC_CLK_TCK);
  // Guests' time, which comes last, is in the user's.
  EXPECT_EQ(busy_of({"cpu1"}, text), 63 * tick_ns);
  EXPECT_EQ(busy_of({"cpu1", "cpu10"}, text), 127 * tick_ns);
  EXPECT_EQ(busy_of({"cpu1", "cpu3"}, text), std::nullopt);
  EXPECT_EQ(busy_of({"cpu2"}, text), std::nullopt);
  EXPECT_EQ(busy_of({}, text), std::nullopt);
  EXPECT_EQ(busy_of({"cpu1"}, "cpu1 1 2"), std::nullopt);
}

// The first rank has what the host used less its own, the others what they used themselves: negative.
TEST(DisturbanceTest, OthersAreTheHostLessAllRanks) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), {0}, "host");
    disturbance.ReadNs();
    const std::vector<std::vector<int64_t>> terms = {{900, 70}, {-200, -10}, {-100, -80}};
    EXPECT_THAT(disturbance.GatherOthersNs(terms[static_cast<size_t>(rank)]),
                ::testing::ElementsAre(600, -20));
  });
}

// Ranks in two network namespaces do not reach each other over loopback, but use the same processors.
TEST(DisturbanceTest, NamespacesOfOneKernelAreOneHost) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool is_elsewhere = unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    const std::string text = is_elsewhere ? comm::HostIdentity() + " " + comm::BootIdentity() : "";
    _exit(write(ends[1], text.data(), text.size()) == std::ssize(text) ? 0 : 1);
  }
  close(ends[1]);
  std::string text(256, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  if (text.empty()) GTEST_SKIP() << "this process may make no namespace";
  std::istringstream words(text);
  std::string host, kernel;
  words >> host >> kernel;
  EXPECT_NE(host, comm::HostIdentity());
  EXPECT_EQ(kernel, comm::BootIdentity());
}

// Rank 2 is alone on its host: what ranks 0 and 1 use elsewhere is none of it.
TEST(DisturbanceTest, EachHostHasItsOwnRanks) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), {rank, 7},
                            rank < 2 ? "a" : "b");
    EXPECT_EQ(disturbance.cpus(), rank < 2 ? std::set<std::string>({"cpu0", "cpu1", "cpu7"})
                                           : std::set<std::string>({"cpu2", "cpu7"}));
    const std::vector<int64_t> terms = {900, -200, 500};
    EXPECT_THAT(disturbance.GatherOthersNs({terms[static_cast<size_t>(rank)]}),
                ::testing::ElementsAre(rank < 2 ? 700 : 500));
  });
}

}  // namespace
}  // namespace gradsync::bench
