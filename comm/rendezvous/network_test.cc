#include "comm/rendezvous/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

constexpr char kTwoOfLoopback[] = "127.0.0.1+127.0.0.2.test";

using std::chrono::milliseconds;
using std::chrono::seconds;

// A listener whose queue is full drops what else comes, as a network does that leads nowhere.
TEST(ConnectTest, AnAddressThatNeverAnswersDoesNotDelayTheOther) {
  const FileDescriptor hole(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  ASSERT_EQ(bind(hole.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(hole.get(), 0), 0);
  const std::string port = std::to_string(PortOf(hole));
  std::vector<FileDescriptor> filling;
  std::string error;
  while (error.empty() && filling.size() < 10) {
    error = ErrorOf<std::runtime_error>([&] {
      filling.push_back(Connect({"127.0.0.1", port}, In(milliseconds(200))));
    });
    if (error == "no error") error.clear();
  }
  ASSERT_EQ(error, "Connection timed out");

  const auto listeners = Listen({"127.0.0.2", port}, DeadlineInAMinute(), [] {});
  EXPECT_TRUE(Connect({kTwoOfLoopback, port}, In(seconds(10))).valid());
}

// Every function that resolves names keeps its deadline.
TEST(ResolveTest, ANameServerThatDoesNotAnswerDelaysNobodyBeyondTheDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string expected = "cannot resolve host silent.test: the name server does not answer";
  const HostPort silent = {"silent.test", "9"};
  const auto expect = [&](const auto& action) { EXPECT_EQ(ErrorOf<std::runtime_error>(action), expected); };
  expect([&] { Connect(silent, In(milliseconds(100))); });
  expect([&] { Listen(silent, In(milliseconds(100)), [] {}); });
  expect([&] { OwnAddressTowards(silent, In(milliseconds(100))); });
  expect([&] { IsLoopback("silent.test", In(milliseconds(100))); });
  EXPECT_FALSE(IsOwnAddress("silent.test", In(milliseconds(100))));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
}

TEST(ParseHostPortTest, MalformedOnesAreQuoted) {
  for (const std::string text : {"host", ":12", "host:", "host:99999", "host:1x", "a:b:1", "host:0"}) {
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { ParseHostPort(text, "tcp://" + text); }),
              "rendezvous is 'tcp://" + text + "', expected tcp://host:port with a port from 1 to 65535");
  }
  EXPECT_EQ(ParseHostPort("[::1]:80", "").host, "::1");
}

TEST(NetworkTest, ListensOnThatAddressAlone) {
  const auto listeners = Listen({"127.0.0.1", "0"}, DeadlineInAMinute(), [] {});
  const std::string port = std::to_string(PortOf(listeners[0]));
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              Connect({"127.0.0.2", port}, DeadlineInAMinute());
            }),
            "Connection refused");
  EXPECT_EQ(ErrorOf<std::runtime_error>([] {
              Listen({"203.0.113.7", "0"}, DeadlineInAMinute(), [] {});
            }),
            "cannot listen on 203.0.113.7 port 0: Cannot assign requested address");
  // By name too: nothing but what the name means.
  const std::string free_port =
      std::to_string(PortOf(Listen({"127.0.0.1", "0"}, DeadlineInAMinute(), [] {})[0]));
  const auto named = Listen({kTwoOfLoopback, free_port}, DeadlineInAMinute(), [] {});
  EXPECT_EQ(named.size(), 2u);
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              Connect({"127.0.0.3", free_port}, DeadlineInAMinute());
            }),
            "Connection refused");
}

TEST(NetworkTest, OwnAddressIsTheOneThatLeadsToThePeer) {
  EXPECT_EQ(OwnAddressTowards({.host = "127.0.0.1", .port = "9"}, DeadlineInAMinute()), "127.0.0.1");
  const std::string error = ErrorOf<std::runtime_error>(
      [] { OwnAddressTowards({.host = "no-such-host.invalid", .port = "9"}, DeadlineInAMinute()); });
  EXPECT_TRUE(error.starts_with("cannot resolve host no-such-host.invalid: ")) << error;
  EXPECT_TRUE(IsOwnAddress(OwnAddress(DeadlineInAMinute()), DeadlineInAMinute()));
}

// Debian gives a host's name an address of loopback; a cluster's host file then adds the real one behind it.
TEST(NetworkTest, OwnAddressOfANameIsNotLoopback) {
  EXPECT_EQ(OwnAddressOf("no-such-host.invalid", DeadlineInAMinute()), "");
  EXPECT_EQ(OwnAddressOf(kTwoOfLoopback, DeadlineInAMinute()), "");
  EXPECT_EQ(OwnAddressOf("127.0.0.1+203.0.113.7.test", DeadlineInAMinute()), "") << "another host";
  const std::string outer = OuterAddress();
  if (outer.empty()) GTEST_SKIP() << "this machine has no network";
  for (const std::string first : {"127.0.0.1", "203.0.113.7"})
    EXPECT_EQ(OwnAddressOf(first + "+" + outer + ".test", DeadlineInAMinute()), outer);
}

TEST(NetworkTest, KnowsLoopback) {
  for (const std::string host : {"127.0.0.1", "127.8.9.10", "localhost", kTwoOfLoopback}) {
    EXPECT_TRUE(IsLoopback(host, DeadlineInAMinute())) << host;
    EXPECT_EQ(IsLoopbackOnlyHere(host, DeadlineInAMinute()), host == kTwoOfLoopback) << host;
  }
  EXPECT_TRUE(IsLoopback("::1", DeadlineInAMinute()));
  for (const std::string host : {"192.0.2.1", "::", "0.0.0.0", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host, DeadlineInAMinute())) << host;
    EXPECT_FALSE(IsLoopbackOnlyHere(host, DeadlineInAMinute())) << host;
  }
  EXPECT_TRUE(IsOwnAddress("127.0.0.1", DeadlineInAMinute()));
  EXPECT_EQ(LoopbackAddress(DeadlineInAMinute()), "127.0.0.1");
  EXPECT_FALSE(IsOwnAddress("203.0.113.7", DeadlineInAMinute()));
}

}  // namespace
}  // namespace gradsync::comm
