#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/gloo/gloo_process_group.h"
#include "comm/gloo/short_messages.h"
#include "comm/process_group.h"
#include "comm/rendezvous/greeting.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/tensor/tensor.h"

// Short vectors that their callers wait for at once have connections of their own.
namespace gradsync::comm {
namespace {

using model::Tensor;
using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Tensor Zeros(int64_t numel) { return Tensor::Zeros(model::CpuDevice(), {numel}, model::DType::kF32); }

Tensor Uneven(int rank, int64_t numel) {
  const Tensor tensor = Zeros(numel);
  for (int64_t i = 0; i < numel; ++i) tensor.data<float>()[i] = static_cast<float>(i % 1009 * (rank + 1));
  return tensor;
}

std::vector<float> SumOfUneven(int size, int64_t numel) {
  std::vector<float> sum = Uneven(0, numel).ToVector<float>();
  for (float& value : sum) value *= static_cast<float>(size * (size + 1) / 2);
  return sum;
}

// This process's ends of TCP connections that have carried something.
std::vector<int> Connections() {
  std::vector<int> connections;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int file = std::stoi(entry.path().filename().string());
    tcp_info info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && info.tcpi_bytes_received > 0)
      connections.push_back(file);
  }
  return connections;
}

// Of sizes around the largest message, by turns, and behind long ones that are not done.
TEST(GlooShortTest, MessagesAreWhole) {
  for (const int size : {2, 3}) {
    auto groups = MakeGroups("gloo", size);
    RunRanks(size, [&](int rank) {
      ProcessGroup& group = *groups[static_cast<size_t>(rank)];
      for (const int64_t numel : {1023, 1024, 1025, 1, 2, 1000, 3}) {
        const Tensor longer = Uneven(rank, 100'000), tensor = Uneven(rank, numel);
        const Work before = group.AllReduce(longer, ReduceOp::kSum);
        group.AllReduce(tensor, ReduceOp::kSum, Waits::kAtOnce).Wait();
        EXPECT_TRUE(before.Done());
        EXPECT_EQ(longer.ToVector<float>(), SumOfUneven(size, 100'000));
        EXPECT_EQ(tensor.ToVector<float>(), SumOfUneven(size, numel));
      }
    });
  }
}

TEST(GlooShortTest, ACollectiveOfAnotherKindIsNoticed) {
  for (const int64_t numel : {1, 2}) {
    auto groups = MakeGroups("gloo", 2);
    const auto errors = ErrorsOfRanks(2, [&](int rank) {
      const ReduceOp op = rank == 0 || numel > 1 ? ReduceOp::kSum : ReduceOp::kMax;
      groups[static_cast<size_t>(rank)]->AllReduce(Zeros(rank == 0 ? 1 : numel), op, Waits::kAtOnce).Wait();
    });
    EXPECT_THAT(errors[0] + errors[1], ContainsRegex("rank [01] is in another collective"));
  }
}

// A rank may be late, but not for ever.
TEST(GlooShortTest, ThePeersDeadlineIsTheGroups) {
  auto groups = MakeGroups("gloo", 2, std::chrono::seconds(3));
  const auto reduce = [&](int rank) {
    groups[static_cast<size_t>(rank)]->AllReduce(Zeros(1), ReduceOp::kSum, Waits::kAtOnce).Wait();
  };
  RunRanks(2, [&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    reduce(rank);
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(ErrorOf<CollectiveError>([&] { reduce(0); }),
              HasSubstr("rank 1 made no progress for 3.0 s, or issues different collectives"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

// A rank that is ahead writes where the others have read.
TEST(GlooShortTest, ManyFollowEachOther) {
  for (const int size : {2, 4}) {
    auto groups = MakeGroups("gloo", size);
    RunRanks(size, [&](int rank) {
      const Tensor tensor = Zeros(1000);
      for (int i = 0; i < 2000; ++i) {
        tensor.data<float>()[999] = static_cast<float>(i + rank);
        groups[static_cast<size_t>(rank)]->AllReduce(tensor, ReduceOp::kMax, Waits::kAtOnce).Wait();
        ASSERT_EQ(tensor.data<float>()[999], static_cast<float>(i + size - 1)) << i;
      }
    });
  }
}

// What rank 1 of two gets from a rank 0 made by hand, which says this to it before it leaves, and after it
// has shown itself with this secret.
std::string ExchangeWith(const std::string& secret, const std::vector<uint64_t>& words) {
  const TemporaryDirectory directory;
  std::string outcome;
  RunRanks(2, [&](int rank) {
    const World world{.rank = rank,
                      .size = 2,
                      .rendezvous = "file://" + directory.path(),
                      .job_secret = "a secret of its ranks"};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    Rendezvous rendezvous(world, std::chrono::seconds(30));
    if (rank == 0) {
      const auto listeners = Listen({"127.0.0.1", "0"}, deadline, [] {});
      const std::string own = Join(PortOf(listeners[0]), " 127.0.0.1 nonce");
      const std::string theirs = rendezvous.Exchange({own})[1];
      WaitFor(listeners[0], POLLIN, deadline);
      const FileDescriptor socket(accept4(listeners[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string text = MakeGreeting("a secret of its ranks", own, 1);
      const std::string expected = std::exchange(text, std::string(text.size(), '\0'));
      EXPECT_EQ(recv(socket.get(), text.data(), text.size(), MSG_WAITALL), std::ssize(text));
      EXPECT_EQ(text, expected);
      text = MakeGreeting(secret, theirs, 0);
      text.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
      EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
      shutdown(socket.get(), SHUT_WR);
      recv(socket.get(), text.data(), 1, MSG_PEEK);  // until rank 1 has sent, or has gone
      return;
    }
    uint64_t own = 1, theirs = 0;
    try {
      ShortMessages messages(world, "127.0.0.1", std::chrono::seconds(20), rendezvous);
      const auto all = messages.Exchange(/*slot=*/7, reinterpret_cast<std::byte*>(&own), sizeof(own));
      std::memcpy(&theirs, all[0], sizeof(theirs));
      outcome = std::to_string(theirs);
    } catch (const std::runtime_error& error) {
      outcome = error.what();
    }
  });
  return outcome;
}

TEST(GlooShortTest, WhatHasArrivedCountsAlthoughTheConnectionIsClosed) {
  const std::string secret = "a secret of its ranks";
  EXPECT_EQ(ExchangeWith(secret, {7, 42}), "42");
  EXPECT_EQ(ExchangeWith(secret, {7}), "rank 0 closed the connection") << "not all of it";
  EXPECT_EQ(ExchangeWith(secret, {}), "rank 0 closed the connection");
}

TEST(GlooShortTest, EachSideProvesTheSecret) {
  EXPECT_EQ(ExchangeWith("a guess", {7, 42}), "whoever listens as rank 0 is not of this job");
  EXPECT_EQ(ExchangeWith("", {7, 42}), "whoever listens as rank 0 is not of this job");
}

// Shorter than what is expected, but of another collective: nobody waits for the rest.
TEST(GlooShortTest, WhatIsOfAnotherCollectiveNeedNotBeWhole) {
  EXPECT_EQ(ExchangeWith("a secret of its ranks", {8}), "rank 0 is in another collective");
}

// gloo's frame for a registered buffer, at a place before the begin of the buffer: as far as the sum of place
// and length is concerned it lies within. Whoever can write to a connection cannot write to memory.
TEST(GlooShortTest, AFrameThatPointsBesideABufferGoesNowhere) {
  for (const uint64_t slot : {0, 1}) {
    auto groups = MakeGroups("gloo", 2, std::chrono::seconds(5));
    std::array<uint64_t, 16> frame{};  // bytes, operation, slot, offset, length, place; and data
    frame = {sizeof(frame), 0, slot, 0, 10 * sizeof(uint64_t), ~uint64_t{0} - 63};
    for (const int file : Connections())
      EXPECT_EQ(send(file, frame.data(), sizeof(frame), MSG_NOSIGNAL), std::ssize(frame) * 8);
    const auto errors = ErrorsOfRanks(2, [&](int rank) {
      groups[static_cast<size_t>(rank)]->AllReduce(Zeros(1), ReduceOp::kSum, Waits::kAtOnce).Wait();
    });
    EXPECT_THAT(errors[0] + errors[1], ContainsRegex("rank [01] is in another collective"));
  }
}

TEST(GlooShortTest, FewRanksHaveAConnectionForThem) {
  auto groups = MakeGroups("gloo", 2);
  EXPECT_EQ(Connections().size(), 6u) << "two ends of one for each direction, and of one for short messages";
}

TEST(GlooShortTest, ManyRanksHaveNoConnectionsForThem) {
  constexpr int kSize = ShortMessages::kMaxRanks + 1;
  auto groups = MakeGroups("gloo", kSize);
  EXPECT_EQ(std::ssize(Connections()), kSize * (kSize - 1) * 2);
  RunRanks(kSize, [&](int rank) {
    const Tensor tensor = Uneven(rank, 3);
    groups[static_cast<size_t>(rank)]->AllReduce(tensor, ReduceOp::kSum, Waits::kAtOnce).Wait();
    EXPECT_EQ(tensor.ToVector<float>(), SumOfUneven(kSize, 3));
    groups[static_cast<size_t>(rank)]->Barrier();
  });
}

// Nobody waits at once for what is asked of a part of another group.
TEST(GlooShortTest, PartsHaveNoConnectionsForThem) {
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<ProcessGroup>> groups(2);
  RunRanks(2, [&](int rank) {
    GroupOptions options;
    options.world = {.rank = rank, .size = 2, .rendezvous = "file://" + directory.path()};
    groups[static_cast<size_t>(rank)] =
        MakeGlooGroup(options, model::CpuDevice(), std::make_shared<FirstCause>(options.world));
  });
  EXPECT_EQ(std::ssize(Connections()), 4);
}

// Long before the deadline, whether this rank or the other gives up.
TEST(GlooShortTest, AGroupThatIsGivenUpEndsThem) {
  for (const size_t who : {0, 1}) {
    auto groups = MakeGroups("gloo", 2, std::chrono::seconds(50));
    const auto begin = std::chrono::steady_clock::now();
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(100));
      groups[who]->Abort();
    });
    const std::string error = ErrorOf<CollectiveError>(
        [&] { groups[0]->AllReduce(Zeros(1), ReduceOp::kSum, Waits::kAtOnce).Wait(); });
    other.join();
    EXPECT_THAT(error, HasSubstr(who == 0 ? "the group was given up" : "rank 1 closed the connection"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  }
}

}  // namespace
}  // namespace gradsync::comm
