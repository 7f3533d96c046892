#include "comm/shm/shm_mesh.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

// A rank that sleeps does not look by itself before the test has failed.
TEST(ShmMeshTest, AStepWakesWhoeverWaitsForIt) {
  constexpr std::chrono::seconds kNever{40};
  const TemporaryDirectory directory;
  RunRanks(3, [&](int rank) {
    const World world{.rank = rank, .size = 3, .rendezvous = "file://" + directory.path()};
    FirstCause first_cause(world);
    ShmMesh mesh(world, 64, kNever, first_cause);
    mesh.set_look_every(kNever);
    for (int round = 0; round < 3; ++round) {
      if (rank == round) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto begin = Clock::now();
      mesh.Meet();
      EXPECT_LT(Clock::now() - begin, kNever / 2);
    }
  });
}

// The other rank, or another thread of the rank that aborts.
TEST(ShmMeshTest, AnAbortWakesWhoeverWaits) {
  constexpr std::chrono::seconds kNever{40};
  for (const int waiting : {0, 1}) {
    const TemporaryDirectory directory;
    const auto begin = Clock::now();
    RunRanks(2, [&](int rank) {
      const World world{.rank = rank, .size = 2, .rendezvous = "file://" + directory.path()};
      FirstCause first_cause(world);
      ShmMesh mesh(world, 64, kNever, first_cause);
      mesh.set_look_every(kNever);
      std::thread waits([&] {
        if (rank != waiting) return;
        EXPECT_THROW(mesh.Meet(), PeerError);
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (rank == 0) mesh.Abort();
      waits.join();
    });
    EXPECT_LT(Clock::now() - begin, kNever / 2);
  }
}

// Rank 1 came, but does not connect. Rank 2 is of no group with it, and sees that rank 0 closed a connection.
TEST(ShmMeshTest, AFailureToConnectIsNoted) {
  const TemporaryDirectory directory;
  RunRanks(3, [&](int rank) {
    World world = JoinJob({.rank = rank, .size = 3, .rendezvous = "file://" + directory.path()}, {},
                          std::chrono::seconds(30));
    FirstCause first_cause(world);
    world.members = {0, 1};
    world.size = 2;
    if (rank == 0) {
      EXPECT_THROW(ShmMesh(world, 64, std::chrono::milliseconds(200), first_cause), CollectiveError);
      return;
    }
    if (rank == 1) Rendezvous(world, std::chrono::seconds(30));
    ErrorOf<JobFailed>([&] { world.job->store().Get("never", Soon()); });
    if (rank == 1) return;
    first_cause.Write(PeerClosed(0, "rank 0 closed the connection"));
    EXPECT_EQ(first_cause.Read(), "rank 1 made no progress for 0.2 s");
  });
}

// Nobody accepts: as long as there is room, the system does.
TEST(ShmMeshTest, AFullQueueOfAListenerEndsTheWaitInTime) {
  const std::string name = "gradsync-test-" + std::to_string(getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener.get(), 2), 0);
  std::vector<FileDescriptor> accepted;
  try {
    for (int i = 0; i < 100; ++i) {
      accepted.push_back(ConnectToListener(name, Clock::now() + std::chrono::milliseconds(200)));
    }
    FAIL() << "no end of room";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ETIMEDOUT);
    EXPECT_GE(accepted.size(), 2u);
  }
  EXPECT_THROW(ConnectToListener(name + "-nobody", Clock::now()), std::system_error);
}

}  // namespace
}  // namespace gradsync::comm
