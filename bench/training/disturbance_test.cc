#include "bench/training/disturbance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "comm/processes/host.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

TEST(DisturbanceTest, BusyIsAllThatIsNotIdle) {
  std::istringstream text("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 2 4 1000 2000 8 16 32 64 128\n");
  // Guests' time, which comes last, is in the user's.
  EXPECT_EQ(HostBusyNs(text), 63 * (int64_t{1'000'000'000} / sysconf(_SC_CLK_TCK)));
  std::istringstream empty(""), zeros("cpu  0 0 0 0 0 0 0 0 0 0\n"), other("intr 1 2 3 4 5 6 7 8\n");
  EXPECT_EQ(HostBusyNs(empty), std::nullopt);
  EXPECT_EQ(HostBusyNs(zeros), std::nullopt);
  EXPECT_EQ(HostBusyNs(other), std::nullopt);
}

// The first rank has what the host used less its own, the others what they used themselves: negative.
TEST(DisturbanceTest, OthersAreTheHostLessAllRanks) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), "host");
    disturbance.NowNs();
    const std::vector<std::vector<int64_t>> terms = {{900, 70}, {-200, -10}, {-100, -80}};
    EXPECT_THAT(disturbance.OthersNs(terms[static_cast<size_t>(rank)]), ::testing::ElementsAre(600, -20));
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
    Disturbance disturbance(*groups[static_cast<size_t>(rank)], model::CpuDevice(), rank < 2 ? "a" : "b");
    const std::vector<int64_t> terms = {900, -200, 500};
    EXPECT_THAT(disturbance.OthersNs({terms[static_cast<size_t>(rank)]}),
                ::testing::ElementsAre(rank < 2 ? 700 : 500));
  });
}

}  // namespace
}  // namespace gradsync::bench
