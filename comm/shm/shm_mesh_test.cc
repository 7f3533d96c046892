#include "comm/shm/shm_mesh.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;

FileDescriptor NewSocket() { return FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

std::pair<sockaddr_un, socklen_t> AddressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

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
    if (rank == 1) Rendezvous(world, std::chrono::seconds(30)).Exchange({"gradsync-nobody"});
    ErrorOf<JobFailed>([&] { world.job->store().Get("never", DeadlineInAMinute()); });
    if (rank == 1) return;
    first_cause.Write(PeerClosed(0, "rank 0 closed the connection"));
    EXPECT_EQ(first_cause.Read(), "rank 1 made no progress for 0.2 s");
  });
}

// What rank 1 of two sends first to the listener of this name. Independent of the mesh.
std::string GreetingOfRank1(const std::string& secret, const std::string& name) {
  return ComputeMac(secret, name + " 1") + " 1";
}

void Say(const FileDescriptor& socket, const std::string& text) {
  EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
}

// Rank 0 of two makes its mesh. Then `strangers` connect to its listener, and rank 1 after them, which leaves
// when it has been sent memory. Returns what rank 0 says; nothing but that if it sent rank 1 no memory.
std::string WithStrangers(const std::function<void(const std::string& name)>& strangers) {
  const std::string secret = "a secret of its ranks";
  const TemporaryDirectory directory;
  bool is_taken = false;
  const std::string error = ErrorsOfRanks(2, [&](int rank) {
    World world = JoinJob({.rank = rank, .size = 2, .rendezvous = "file://" + directory.path()}, {},
                          std::chrono::seconds(30));
    world.job_secret = secret;
    FirstCause first_cause(world);
    if (rank == 0) {
      ShmMesh(world, 64, std::chrono::seconds(3), first_cause);
      return;
    }
    const std::string name = Rendezvous(world, std::chrono::seconds(30)).Exchange({"gradsync-nobody"})[0];
    strangers(name);
    const FileDescriptor socket = ConnectToListener(name, DeadlineInAMinute());
    Say(socket, GreetingOfRank1(secret, name));
    // The memory that rank 0 shares, and how much of it.
    size_t bytes = 0;
    EXPECT_TRUE(WaitFor(socket, POLLIN, DeadlineInAMinute()));
    is_taken = recv(socket.get(), &bytes, sizeof(bytes), 0) == sizeof(bytes);
  })[0];
  constexpr std::string_view kPrefix = "rank 0: could not share memory with the other ranks: ";
  EXPECT_TRUE(error.starts_with(kPrefix)) << error;
  return Join(is_taken ? "rank 1 was taken: " : "", error.substr(kPrefix.size()));
}

constexpr char kTaken[] = "rank 1 was taken: rank 1 closed the connection";

TEST(ShmMeshTest, StrangersHoldNobodyUp) {
  std::vector<FileDescriptor> strangers;
  EXPECT_EQ(WithStrangers([&](const std::string& name) {
              // More than rank 0 keeps, of whom none says anything; and those who lie.
              for (int i = 0; i < 200; ++i) strangers.push_back(ConnectToListener(name, DeadlineInAMinute()));
              for (const std::string& text :
                   {GreetingOfRank1("a guess", name), GreetingOfRank1("", name), std::string(1000, 'x'),
                    std::string("1"), std::string("\1\0\0\0", 4)}) {
                strangers.push_back(ConnectToListener(name, DeadlineInAMinute()));
                Say(strangers.back(), text);
              }
            }),
            kTaken);
}

TEST(ShmMeshTest, AnotherUserIsNoRank) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::string error = WithStrangers([](const std::string& name) {
    const std::string greeting = GreetingOfRank1("a secret of its ranks", name);
    const pid_t child = fork();
    if (child == 0) {
      if (setuid(65534) != 0) _exit(1);
      const FileDescriptor socket = ConnectToListener(name, DeadlineInAMinute());
      // Rank 0 may have closed it by now.
      (void)!send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "a sandbox has no other users: run it outside";
  });
  EXPECT_EQ(error, kTaken);
}

TEST(ShmMeshTest, ALackOfDescriptorsIsNamed) {
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const std::string error = WithStrangers([&](const std::string& name) {
    const FileDescriptor socket = NewSocket();
    const rlimit limit = {.rlim_cur = 3, .rlim_max = old_limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const auto [address, length] = AddressOf(name);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    setrlimit(RLIMIT_NOFILE, &old_limit);
  });
  EXPECT_EQ(error, "ulimit -n is 3: accept: Too many open files");
}

// Nobody accepts: as long as there is room, the system does.
TEST(ShmMeshTest, AFullQueueOfAListenerEndsTheWaitInTime) {
  const std::string name = "gradsync-test-" + std::to_string(getpid());
  const auto [address, length] = AddressOf(name);
  const FileDescriptor listener = NewSocket();
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
