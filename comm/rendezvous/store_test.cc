#include "comm/rendezvous/store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <thread>

#include "comm/processes/temporary_directory.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/tcp_store.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Deadline In(milliseconds time) { return std::chrono::steady_clock::now() + time; }
Deadline Soon() { return In(seconds(60)); }

template <class Error, class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(FileStoreTest, JobsDoNotSeeEachOther) {
  const TemporaryDirectory directory;
  FileStore unnamed(directory.path()), a(directory.path(), {.name = "a"}), b(directory.path(), {.name = "b"}),
      a_again(directory.path(), {.name = "a"}), secret(directory.path(), {.name = "a", .secret = "s"});
  a.Set("key", "of a");
  EXPECT_EQ(a_again.Get("key"), "of a");
  EXPECT_EQ(a_again.Keys("k"), (std::vector<std::string>{"key"}));
  EXPECT_TRUE(a.Claim("name"));
  EXPECT_FALSE(a_again.Claim("name"));
  for (FileStore* const other : {&unnamed, &b, &secret}) {
    EXPECT_EQ(other->Get("key"), std::nullopt);
    EXPECT_TRUE(other->Keys("k").empty());
    EXPECT_TRUE(other->Claim("name"));
  }
}

TEST(FileStoreTest, AClaimEndsWithItsOwner) {
  const TemporaryDirectory directory;
  FileStore store(directory.path());
  {
    FileStore other(directory.path());
    EXPECT_TRUE(other.Claim("name"));
    EXPECT_FALSE(store.Claim("name"));
    EXPECT_TRUE(store.Claim("another"));
  }
  EXPECT_TRUE(store.Claim("name"));
}

TEST(FileStoreTest, AClaimEndsWithAProcessThatIsKilled) {
  const TemporaryDirectory directory;
  Pipe claimed = MakePipe();
  const pid_t owner = fork();
  if (owner == 0) {
    FileStore store(directory.path());
    if (store.Claim("name")) (void)!write(claimed.write_end.get(), "x", 1);
    sleep(600);
  }
  char c;
  ASSERT_EQ(read(claimed.read_end.get(), &c, 1), 1);
  FileStore store(directory.path());
  EXPECT_FALSE(store.Claim("name"));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(store.Claim("name"));
}

TEST(FileStoreTest, ClaimsLeaveNothing) {
  const TemporaryDirectory directory;
  { EXPECT_TRUE(FileStore(directory.path()).Claim("name")); }
  EXPECT_TRUE(FileStore(directory.path()).Keys("").empty());
}

class TcpStoreTest : public testing::Test {
 protected:
  HostPort address() const { return {.host = "127.0.0.1", .port = std::to_string(server_.port())}; }
  TcpStoreClient Client() const { return {address(), job_, Soon()}; }
  void ExpectToServe() const {
    TcpStoreClient client = Client();
    client.Set("alive", "yes");
    EXPECT_EQ(client.Get("alive"), "yes");
  }

  const JobIdentity job_{.name = "mine", .secret = "known to few"};
  TcpStoreServer server_{{.host = "127.0.0.1", .port = "0"}, job_, 4, Soon()};
};

TEST_F(TcpStoreTest, KeepsValues) {
  TcpStoreClient client = Client();
  client.Set("key", std::string("a\0b", 3));
  EXPECT_EQ(client.Get("key"), std::string("a\0b", 3));
  EXPECT_EQ(server_.Get("key"), std::string("a\0b", 3));
  EXPECT_EQ(client.Get("nothing"), std::nullopt);
  client.Set("kez", "");
  EXPECT_EQ(client.Get("kez"), "");
  EXPECT_EQ(client.Keys("ke"), (std::vector<std::string>{"key", "kez"}));
  client.Remove("key");
  EXPECT_EQ(client.Get("key"), std::nullopt);
  const std::string large(size_t{3} << 20, 'x');
  client.Set("large", large);
  EXPECT_EQ(client.Get("large"), large);
}

TEST_F(TcpStoreTest, AClaimEndsWithItsConnection) {
  TcpStoreClient client = Client();
  {
    TcpStoreClient other = Client();
    EXPECT_TRUE(other.Claim("name"));
    EXPECT_FALSE(client.Claim("name"));
    EXPECT_FALSE(server_.Claim("name"));
  }
  bool is_mine = false;
  for (int i = 0; i < 2000 && !is_mine; ++i) {
    is_mine = client.Claim("name");
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(is_mine);
}

TEST_F(TcpStoreTest, TurnsOtherJobsAway) {
  EXPECT_EQ(
      ErrorOf<Refused>([&] { TcpStoreClient(address(), {.name = "yours", .secret = job_.secret}, Soon()); }),
      "rank 0 is of job 'mine', this process of job 'yours'");
  for (const std::string secret : {"", "known to feW", "known to few "}) {
    EXPECT_EQ(
        ErrorOf<Refused>([&] { TcpStoreClient(address(), {.name = "mine", .secret = secret}, Soon()); }),
        "GRADSYNC_SECRET is not the one of rank 0");
  }
  ExpectToServe();
}

TEST_F(TcpStoreTest, ASecondServerOfAnotherJobDoesNotWaitForThePort) {
  EXPECT_EQ(ErrorOf<Refused>([&] { TcpStoreServer(address(), {.name = "yours"}, 1, Soon()); }),
            "rank 0 is of job 'mine', this process of job 'yours'");
  EXPECT_EQ(ErrorOf<Refused>([&] { TcpStoreServer(address(), job_, 1, Soon()); }),
            "another process is rank 0 there");
}

FileDescriptor Connected(const HostPort& address) { return ConnectToAny({address}, Soon()); }

void Send(const FileDescriptor& socket, const std::string& bytes) {
  EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// Whether the other end hangs up within the time.
bool IsClosed(const FileDescriptor& socket, milliseconds time) {
  const Deadline deadline = In(time);
  while (WaitFor(socket, POLLIN, deadline)) {
    char bytes[4096];
    const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
  }
  return false;
}

std::string Request(char operation, uint32_t key_bytes, uint32_t value_bytes, const std::string& rest) {
  std::string text(1, operation);
  for (const uint32_t length : {htonl(key_bytes), htonl(value_bytes)}) {
    text.append(reinterpret_cast<const char*>(&length), sizeof(length));
  }
  return text + rest;
}

TEST_F(TcpStoreTest, HangsUpOnStrangers) {
  const std::string hello = "gradsync store 2mine\nknown to few";
  for (const std::string& bytes : {
           std::string("GET / HTTP/1.1\r\nHost: rank0\r\n\r\n"),
           Request('s', 3, 1, "keyv"),                             // before a hello
           Request('h', 0xffffffff, 0xffffffff, ""),               // a hello of 8 GiB
           Request('h', 16, 2000, ""),                             // a long one
           Request('h', 3, 0, "old"),                              // another protocol
           Request('h', 16, 17, hello) + Request('g', 1, 0, "k"),  // does not wait for the answer
           std::string(100'000, '\xff'),
       }) {
    const FileDescriptor socket = Connected(address());
    Send(socket, bytes);
    EXPECT_TRUE(IsClosed(socket, seconds(30))) << bytes.substr(0, 30);
  }
  ExpectToServe();
}

TEST_F(TcpStoreTest, HangsUpOnRanksThatAskTooMuch) {
  for (const std::string& bytes :
       {Request('s', 257, 0, ""), Request('s', 1, (4 << 20) + 1, ""), Request('?', 0, 0, "")}) {
    const FileDescriptor socket = Connected(address());
    Send(socket, Request('h', 16, 17, "gradsync store 2mine\nknown to few"));
    ASSERT_TRUE(WaitFor(socket, POLLIN, Soon()));
    Send(socket, bytes);
    EXPECT_TRUE(IsClosed(socket, seconds(30)));
  }
  ExpectToServe();
}

TEST_F(TcpStoreTest, HangsUpOnThoseWhoSayNothing) {
  const FileDescriptor socket = Connected(address());
  EXPECT_TRUE(IsClosed(socket, seconds(30)));
}

TEST_F(TcpStoreTest, TakesOnlySoManyConnections) {
  TcpStoreClient client = Client();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(Connected(address()));
  // 4 clients and 64 to spare. One too many is not answered, but closed.
  EXPECT_TRUE(IsClosed(strangers.back(), milliseconds(2000)));
  client.Set("alive", "yes");
  EXPECT_EQ(client.Get("alive"), "yes");
}

TEST_F(TcpStoreTest, ListensWhereItWasToldTo) {
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              ConnectToAny({{.host = "127.0.0.2", .port = address().port}}, In(milliseconds(100)));
            }),
            "Connection refused");
  EXPECT_EQ(ErrorOf<std::runtime_error>(
                [] { TcpStoreServer({.host = "203.0.113.7", .port = "0"}, {}, 1, Soon()); }),
            "cannot listen on 203.0.113.7 port 0: Cannot assign requested address");
}

// With no descriptor left it waits, and serves when there are some again.
TEST_F(TcpStoreTest, DoesNotSpinWithoutDescriptors) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<FileDescriptor> all;
  do {
    all.push_back(OpenFile("/dev/null", O_RDONLY));
  } while (all.back().get() < 100);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const rlimit limit = {.rlim_cur = static_cast<rlim_t>(all.back().get()) + 1,
                        .rlim_max = old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(server_.port()));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(milliseconds(1000));
  const double cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  setrlimit(RLIMIT_NOFILE, &old_limit);
  EXPECT_LT(cpu_seconds, 0.5);
  all.clear();
  ExpectToServe();
}

TEST(TcpStoreClientTest, DoesNotTrustLengths) {
  const auto listeners = Listen({.host = "127.0.0.1", .port = "0"}, Soon(), [] {});
  std::thread liar([&] {
    WaitFor(listeners[0], POLLIN, Soon());
    const FileDescriptor socket(accept4(listeners[0].get(), nullptr, nullptr, SOCK_CLOEXEC));
    char bytes[4096];
    EXPECT_GT(recv(socket.get(), bytes, sizeof(bytes), 0), 0);
    Send(socket, std::string("\1\0\0\0\0", 5));
    EXPECT_GT(recv(socket.get(), bytes, sizeof(bytes), 0), 0);
    Send(socket, "\1\xff\xff\xff\xff");
    recv(socket.get(), bytes, sizeof(bytes), 0);
  });
  {
    TcpStoreClient client({.host = "127.0.0.1", .port = std::to_string(PortOf(listeners[0]))}, {}, Soon());
    EXPECT_EQ(ErrorOf<std::runtime_error>([&] { client.Get("key"); }),
              "what answers for rank 0 announces 4294967295 bytes");
  }
  liar.join();
}

TEST(TcpStoreClientTest, DoesNotWaitLongerThanItMay) {
  // Takes connections, but never says a word.
  const auto listeners = Listen({.host = "127.0.0.1", .port = "0"}, Soon(), [] {});
  EXPECT_EQ(ErrorOf<std::runtime_error>([&] {
              TcpStoreClient({.host = "127.0.0.1", .port = std::to_string(PortOf(listeners[0]))}, {},
                             In(milliseconds(200)));
            }),
            "rank 0 did not answer: rank 0 does not answer");
}

// A listener whose queue is full drops what else comes, as a network does that leads nowhere.
TEST(ConnectToAnyTest, AnAddressThatNeverAnswersKeepsNobodyFromTheOther) {
  const FileDescriptor hole(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(hole.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(hole.get(), 0), 0);
  const HostPort nowhere = {.host = "127.0.0.1", .port = std::to_string(PortOf(hole))};
  std::vector<FileDescriptor> filling;
  std::string error;
  while (error.empty() && filling.size() < 10) {
    error = ErrorOf<std::runtime_error>(
        [&] { filling.push_back(ConnectToAny({nowhere}, In(milliseconds(200)))); });
    if (error == "no error") error.clear();
  }
  ASSERT_EQ(error, "Connection timed out");

  const auto listeners = Listen({.host = "127.0.0.1", .port = "0"}, Soon(), [] {});
  const HostPort somewhere = {.host = "127.0.0.1", .port = std::to_string(PortOf(listeners[0]))};
  EXPECT_TRUE(ConnectToAny({nowhere, somewhere}, In(seconds(5))).valid());
}

TEST(RendezvousUrlTest, MalformedUrlsAreQuoted) {
  const auto error_of = [](const std::string& url) {
    return ErrorOf<InvalidInput>([&] { OpenStore({.url = url}, std::chrono::steady_clock::now()); });
  };
  EXPECT_EQ(error_of("/tmp/x"), "rendezvous is '/tmp/x', expected file:///directory or tcp://host:port");
  EXPECT_EQ(error_of("file://tmp/x"), "rendezvous is 'file://tmp/x', expected file:///absolute/directory");
  for (const std::string url : {"tcp://host", "tcp://:12", "tcp://host:", "tcp://host:99999", "tcp://host:1x",
                                "tcp://a:b:1", "tcp://host:0"}) {
    EXPECT_EQ(error_of(url),
              "rendezvous is '" + url + "', expected tcp://host:port with a port from 1 to 65535");
  }
  EXPECT_EQ(ParseHostPort("[::1]:80", "").host, "::1");
}

TEST(NetworkTest, OwnAddressIsTheOneThatLeadsToThePeer) {
  EXPECT_EQ(OwnAddressTowards({.host = "127.0.0.1", .port = "9"}), "127.0.0.1");
  const std::string error =
      ErrorOf<std::runtime_error>([] { OwnAddressTowards({.host = "no-such-host.invalid", .port = "9"}); });
  EXPECT_TRUE(error.starts_with("cannot resolve host no-such-host.invalid: ")) << error;
}

TEST(NetworkTest, KnowsLoopback) {
  for (const std::string host : {"127.0.0.1", "127.8.9.10", "localhost"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  EXPECT_TRUE(IsLoopback("::1"));
  for (const std::string host : {"192.0.2.1", "::", "128.0.0.1"}) EXPECT_FALSE(IsLoopback(host)) << host;
  EXPECT_TRUE(IsOwnAddress("127.0.0.1"));
  EXPECT_FALSE(IsOwnAddress("203.0.113.7"));
}

TEST(NetworkTest, AHostIsAWord) {
  EXPECT_EQ(HostIdentity(), HostIdentity());
  EXPECT_GT(HostIdentity().size(), 10u);
  EXPECT_EQ(HostIdentity().find_first_of(" \n"), std::string::npos);
}

}  // namespace
}  // namespace gradsync::comm
