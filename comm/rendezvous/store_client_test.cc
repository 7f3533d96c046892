#include "comm/rendezvous/store_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/store_server.h"
#include "comm/testing/errors.h"

// The side of the other ranks, and what both stand on.
namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

std::vector<FileDescriptor> ListenAnywhere() {
  return Listen({"127.0.0.1", "0"}, DeadlineInAMinute(), [] {});
}

// What connects next.
FileDescriptor Accepted(const FileDescriptor& listener) {
  WaitFor(listener, POLLIN, DeadlineInAMinute());
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void Send(const FileDescriptor& socket, const std::string& bytes) {
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

// Until the other side has gone.
void ReadAll(const FileDescriptor& socket) {
  char bytes[4096];
  while (WaitFor(socket, POLLIN, DeadlineInAMinute()) && recv(socket.get(), bytes, sizeof(bytes), 0) > 0)
    continue;
}

TEST(StoreClientTest, DoesNotTrustLengths) {
  const auto listeners = ListenAnywhere();
  std::thread liar([&] {
    const FileDescriptor socket = Accepted(listeners[0]);
    Send(socket, "c\xff\xff\xff\xff");
    ReadAll(socket);
  });
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              StoreClient({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, {}, "", DeadlineInAMinute());
            }),
            "what answers for rank 0 announces 4294967295 bytes");
  liar.join();
}

TEST(StoreClientTest, ARank0ThatLeavesWithoutReadingHasClosedTheConnection) {
  const auto listeners = ListenAnywhere();
  std::thread leaves([&] {
    const FileDescriptor socket = Accepted(listeners[0]);
    WaitFor(socket, POLLIN, DeadlineInAMinute());
  });
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              StoreClient({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, {}, "", DeadlineInAMinute());
            }),
            "rank 0 closed the connection");
  leaves.join();
}

TEST(StoreClientTest, AnAnswerThatComesTooLateAnswersNothingElse) {
  const auto listeners = ListenAnywhere();
  std::promise<void> is_late;
  std::thread slow([&] {
    const FileDescriptor socket = Accepted(listeners[0]);
    Channel client{FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0))};
    const std::string hello = client.Receive(kMaxPayloadBytes, DeadlineInAMinute()).payload;
    client.Send({FrameType::kChallenge, "nonce\n" + ProofOfRank0("", hello, "nonce")}, DeadlineInAMinute());
    client.Receive(kMaxPayloadBytes, DeadlineInAMinute());
    Send(socket, std::string("y\0\0\0\x08"
                             "a",
                             6));  // the first bytes
    is_late.get_future().wait();
    Send(socket, " answer");
    client.Receive(kMaxPayloadBytes, DeadlineInAMinute());
    client.Send({FrameType::kYes, "another"}, DeadlineInAMinute());
    ReadAll(socket);
  });
  {
    StoreClient client({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, {}, "", DeadlineInAMinute());
    EXPECT_EQ(ErrorOf<std::runtime_error>([&] { client.Get("key", In(milliseconds(-900))); }),
              "rank 0 does not answer");
    is_late.set_value();
    EXPECT_EQ(client.Get("another key", DeadlineInAMinute()), "another");
  }
  slow.join();
}

TEST(StoreClientTest, DoesNotWaitLongerThanItMay) {
  // Takes connections, but never says a word.
  const auto listeners = ListenAnywhere();
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              StoreClient({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, {}, "", In(milliseconds(200)));
            }),
            "rank 0 does not answer");
}

TEST(MacTest, IsHmacSha256) {  // RFC 4231, test case 2
  EXPECT_EQ(ComputeMac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(IsSameMac(ComputeMac("a", "b"), ComputeMac("a", "b")));
  EXPECT_FALSE(IsSameMac(ComputeMac("a", "b"), ComputeMac("a", "c")));
  EXPECT_FALSE(IsSameMac("", ComputeMac("a", "b")));
  for (size_t i = 0; i < 64; ++i) {
    std::string other = ComputeMac("a", "b");
    other[i] ^= 1;
    EXPECT_FALSE(IsSameMac(ComputeMac("a", "b"), other)) << i;
  }
}

// Who receives would take another frame for the rest of it.
TEST(ChannelTest, AfterAFrameThatWasSentInPartNothingIsSent) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  Channel channel{FileDescriptor(ends[0])};
  const FileDescriptor other(ends[1]);
  EXPECT_THROW(channel.Send({FrameType::kSet, std::string(4 << 20, 'x')}, In(milliseconds(10))),
               std::runtime_error);
  char bytes[4096];
  ssize_t received = 0;
  while ((received = recv(other.get(), bytes, sizeof(bytes), 0)) > 0) continue;
  EXPECT_EQ(received, 0) << "the end";
  EXPECT_THROW(channel.Send({FrameType::kSet, "key"}, DeadlineInAMinute()), std::runtime_error);
}

}  // namespace
}  // namespace gradsync::comm
