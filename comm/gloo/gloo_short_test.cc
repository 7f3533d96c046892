#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/gloo/gloo_process_group.h"
#include "comm/process_group.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/tensor.h"

// Short vectors that their callers wait for at once have connections of their own.
namespace gradsync::comm {
namespace {

using model::Tensor;
using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

struct Connection {
  int send_buffer_bytes = 0;
  uint64_t num_sent_bytes = 0;
};

// This process's ends of TCP connections that have carried something, by descriptor.
std::map<int, Connection> Connections() {
  std::map<int, Connection> connections;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int file = std::stoi(entry.path().filename().string());
    tcp_info info{};
    socklen_t bytes = sizeof(info);
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || info.tcpi_bytes_received == 0)
      continue;
    Connection connection{.num_sent_bytes = info.tcpi_bytes_acked};
    bytes = sizeof(connection.send_buffer_bytes);
    getsockopt(file, SOL_SOCKET, SO_SNDBUF, &connection.send_buffer_bytes, &bytes);
    connections[file] = connection;
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

// What rank 1 of two gets from a rank 0 that sends it so many words of a message of one word and leaves
// before rank 1 has looked.
std::string ExchangeAfterTheEnd(size_t num_words) {
  const TemporaryDirectory directory;
  std::atomic<bool> is_closed = false, is_done = false;
  std::string outcome;
  RunRanks(2, [&](int rank) {
    const World world{.rank = rank,
                      .size = 2,
                      .local_rank = rank,
                      .local_size = 2,
                      .rendezvous = "file://" + directory.path(),
                      .launcher = "self"};
    FirstCause first_cause(world);
    GlooMesh mesh(world, "", std::chrono::seconds(60), first_cause);
    constexpr uint64_t kSlot = 7;
    if (rank == 0) {
      // As ShortMessages sends it, over the connection that carries what is from rank 0.
      std::array<uint64_t, 3> message = {kSlot, 42, kSlot};
      const auto& pair = mesh.context(0, 1, GlooMesh::Kind::kShort)->getPair(1);
      const auto buffer = pair->createSendBuffer(0, message.data(), sizeof(message));
      buffer->send(0, num_words * sizeof(uint64_t));
      std::this_thread::sleep_for(milliseconds(100));
      pair->close();
      is_closed = true;
      while (!is_done) std::this_thread::yield();
      return;
    }
    while (!is_closed) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(100));
    uint64_t own = 1, theirs = 0;
    outcome = ErrorOf<PeerError>([&] {
      const auto all =
          mesh.short_messages()->Exchange(kSlot, reinterpret_cast<std::byte*>(&own), sizeof(own));
      std::memcpy(&theirs, all[0], sizeof(theirs));
    });
    if (theirs != 0) outcome = std::to_string(theirs);
    is_done = true;
  });
  return outcome;
}

TEST(GlooShortTest, WhatHasArrivedCountsAlthoughTheConnectionIsClosed) {
  EXPECT_EQ(ExchangeAfterTheEnd(3), "42");
  EXPECT_THAT(ExchangeAfterTheEnd(2), StartsWith("rank 0 closed the connection")) << "not all of it";
}

// gloo shrinks those of the connections that carry its buffers.
TEST(GlooShortTest, LongMessagesKeepTheirSendBuffers) {
  auto groups = MakeGroups("gloo", 2);
  const std::map<int, Connection> before = Connections();
  ASSERT_EQ(std::ssize(before), 8) << "two ends of two connections of each kind";
  RunRanks(2, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    for (const int64_t numel : {1, 1'000'000, 2}) {
      const Tensor tensor = Uneven(rank, numel);
      group.AllReduce(tensor, ReduceOp::kSum, Waits::kAtOnce).Wait();
      EXPECT_EQ(tensor.ToVector<float>(), SumOfUneven(2, numel));
      group.Barrier();
    }
  });
  int num_long = 0, num_shrunk = 0;
  for (const auto& [file, connection] : Connections()) {
    const bool is_long = connection.num_sent_bytes > 1'000'000;
    const bool is_shrunk = connection.send_buffer_bytes < before.at(file).send_buffer_bytes;
    EXPECT_FALSE(is_long && is_shrunk);
    num_long += is_long ? 1 : 0;
    num_shrunk += is_shrunk ? 1 : 0;
  }
  EXPECT_EQ(num_long, 2) << "from each rank to the other";
  EXPECT_EQ(num_shrunk, 2) << "else short messages did not go as gloo's buffers";
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
