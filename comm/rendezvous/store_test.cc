#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <future>
#include <memory>
#include <thread>

#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"
#include "comm/testing/errors.h"

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "known to few";

std::vector<FileDescriptor> ListenAnywhere() {
  return Listen({"127.0.0.1", "0"}, DeadlineInAMinute(), [] {});
}

// What connects next.
FileDescriptor Accepted(const FileDescriptor& listener) {
  WaitFor(listener, POLLIN, DeadlineInAMinute());
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

// A job of rank 0, whose server this is, and of two others.
class StoreTest : public testing::Test {
 protected:
  HostPort address() const { return {.host = "127.0.0.1", .port = std::to_string(server_.port())}; }
  std::unique_ptr<StoreClient> Client() const {
    return std::make_unique<StoreClient>(address(), job_, "run", DeadlineInAMinute());
  }
  FileDescriptor Connected() const { return Connect(address(), DeadlineInAMinute()); }
  // Ranks 1 and 2, which have joined.
  std::vector<std::unique_ptr<StoreClient>> JoinAll() const {
    std::vector<std::unique_ptr<StoreClient>> clients;
    for (int i = 0; i < 2; ++i) clients.push_back(Client());
    std::thread other([&] { clients[1]->Join(2, "host 2", "", DeadlineInAMinute()); });
    EXPECT_EQ(clients[0]->Join(1, "host 1", "", DeadlineInAMinute()), hosts_);
    other.join();
    return clients;
  }
  void ExpectToServe() {
    const auto clients = JoinAll();
    clients[0]->Set("alive", "yes", DeadlineInAMinute());
    EXPECT_EQ(clients[1]->Get("alive", DeadlineInAMinute()), "yes");
  }

  const JobIdentity job_{.name = "mine", .secret = kSecret};
  const std::vector<std::string> hosts_ = {"host 0", "host 1", "host 2"};
  StoreServer server_{
      ListenAnywhere(),
      {.job = job_, .run = "run", .size = 3, .host = "host 0", .check = [](int, const std::string& terms) {
         return terms;
       }}};
};

// Between the challenge and its answer, a run that ends is no reason for a rank of the next run to give up.
TEST_F(StoreTest, ARankThatIsJoiningWhileRank0LeavesComesAgain) {
  auto server = std::make_unique<StoreServer>(
      ListenAnywhere(),
      StoreServer::Options{.job = job_, .run = "run", .size = 2, .host = "host 0", .check = {}});
  StoreClient client({.host = "127.0.0.1", .port = std::to_string(server->port())}, job_, "run",
                     DeadlineInAMinute());
  server.reset();
  EXPECT_EQ(client.Join(1, "host 1", "", DeadlineInAMinute()), std::nullopt);
}

TEST_F(StoreTest, KeepsValues) {
  const auto clients = JoinAll();
  StoreClient& client = *clients[0];
  EXPECT_EQ(server_.WaitForRanks(DeadlineInAMinute(), {}), hosts_);
  client.Set("key", std::string("a\0b\n\nc", 6), DeadlineInAMinute());
  for (Store* const store : std::initializer_list<Store*>{&client, clients[1].get(), &server_}) {
    EXPECT_EQ(store->Get("key", DeadlineInAMinute()), std::string("a\0b\n\nc", 6));
    EXPECT_EQ(store->Get("nothing", In(milliseconds(10))), std::nullopt);
  }
  server_.Set("kez", "", DeadlineInAMinute());
  EXPECT_EQ(client.Get("kez", DeadlineInAMinute()), "");
  const std::string large(size_t{3} << 20, 'x');
  client.Set("large", large, DeadlineInAMinute());
  EXPECT_EQ(client.Get("large", DeadlineInAMinute()), large);
}

TEST_F(StoreTest, WaitsForWhatIsSetLater) {
  const auto clients = JoinAll();
  const auto get = [](Store& store) {
    return std::async(std::launch::async, [&] { return store.Get("key", DeadlineInAMinute()); });
  };
  auto of_client = get(*clients[0]);
  auto of_rank0 = get(server_);
  std::this_thread::sleep_for(milliseconds(50));
  clients[1]->Set("key", "value", DeadlineInAMinute());
  EXPECT_EQ(of_client.get(), "value");
  EXPECT_EQ(of_rank0.get(), "value");
}

TEST_F(StoreTest, RanksMeet) {
  const auto clients = JoinAll();
  auto of_rank0 = std::async(std::launch::async, [&] {
    return server_.Meet("key", 0, 3, {"00", "01", "02"}, DeadlineInAMinute());
  });
  auto of_rank1 = std::async(std::launch::async,
                             [&] { return clients[0]->Meet("key", 1, 3, {""}, DeadlineInAMinute()); });
  EXPECT_EQ(clients[1]->Meet("key", 2, 3, {"20", "2\n1", "22"}, DeadlineInAMinute()),
            (Store::Values{"02", "", "22"}));
  EXPECT_EQ(of_rank1.get(), (Store::Values{"01", "", "2\n1"}));
  EXPECT_EQ(of_rank0.get(), (Store::Values{"00", "", "20"}));
  // All have left, so the key is free again; one of them is late.
  EXPECT_EQ(clients[0]->Meet("key", 1, 2, {"x"}, In(milliseconds(50))), (Store::Values{std::nullopt, "x"}));
}

TEST_F(StoreTest, AFailureReachesThoseWhoMeet) {
  const auto clients = JoinAll();
  for (Store* const store : std::initializer_list<Store*>{clients[0].get(), &server_}) {
    auto waiting = std::async(std::launch::async, [&] {
      return ErrorOf<JobFailed>(
          [&] { store->Meet("key", store == &server_ ? 0 : 1, 3, {""}, DeadlineInAMinute()); });
    });
    std::this_thread::sleep_for(milliseconds(50));
    clients[1]->Fail("the cause");
    EXPECT_EQ(waiting.get(), "the cause");
  }
}

TEST_F(StoreTest, AFailureReachesThoseWhoWaitAndThoseWhoAskLater) {
  const auto clients = JoinAll();
  const auto cause_for = [](Store& store, const std::string& key) {
    return ErrorOf<JobFailed>([&] { store.Get(key, DeadlineInAMinute()); });
  };
  auto waiting = std::async(std::launch::async, [&] { return cause_for(*clients[0], "key"); });
  std::this_thread::sleep_for(milliseconds(50));
  server_.Set("set", "before", DeadlineInAMinute());
  clients[1]->Fail("first cause");
  server_.Fail("second cause");
  EXPECT_EQ(waiting.get(), "first cause");
  EXPECT_EQ(cause_for(*clients[1], "set"), "first cause");
  EXPECT_EQ(cause_for(server_, "set"), "first cause");
  for (Store* const store : {static_cast<Store*>(&server_), static_cast<Store*>(clients[0].get())})
    EXPECT_EQ(store->bad_argument(), std::nullopt);
}

TEST_F(StoreTest, ABadArgumentIsKnownAsSuch) {
  const auto clients = JoinAll();
  clients[1]->Fail("--flag: bad", FailureKind::kBadArgument);
  server_.Fail("second cause");
  EXPECT_EQ(ErrorOf<JobFailed>([&] { clients[0]->Get("key", DeadlineInAMinute()); }), "--flag: bad");
  EXPECT_EQ(clients[0]->bad_argument(), "--flag: bad");
  EXPECT_EQ(server_.bad_argument(), "--flag: bad");
  EXPECT_EQ(server_.WaitForRanks(DeadlineInAMinute(), {}),
            hosts_);  // all had joined, which rank 0 may hear later
}

TEST_F(StoreTest, AFailureIsKnownWhenRank0HasGone) {
  auto server = std::make_unique<StoreServer>(
      ListenAnywhere(), StoreServer::Options{.check = [](int, const std::string&) { return ""; }});
  StoreClient client({"127.0.0.1", std::to_string(server->port())}, {}, "", DeadlineInAMinute());
  client.Join(1, "host", "", DeadlineInAMinute());
  server->Fail("first cause");
  server.reset();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ErrorOf<JobFailed>([&] { client.Set("key", "value", DeadlineInAMinute()); }), "first cause");
  }
}

TEST_F(StoreTest, AProcessThatComesWhenTheRunHasBegunIsToTryLater) {
  JoinAll();
  EXPECT_EQ(Client()->Join(1, "host 1", "", DeadlineInAMinute()), std::nullopt);
}

TEST_F(StoreTest, AProcessThatWaitsForOthersIsToTryLaterIfRank0Leaves) {
  auto server = std::make_unique<StoreServer>(
      ListenAnywhere(), StoreServer::Options{.size = 3, .check = [](int, const std::string&) { return ""; }});
  StoreClient client({"127.0.0.1", std::to_string(server->port())}, {}, "", DeadlineInAMinute());
  auto joining =
      std::async(std::launch::async, [&] { return client.Join(1, "host", "", DeadlineInAMinute()); });
  std::this_thread::sleep_for(milliseconds(50));
  server.reset();
  EXPECT_EQ(joining.get(), std::nullopt);
}

TEST_F(StoreTest, TurnsOtherJobsAway) {
  EXPECT_EQ(ErrorOf<Refused>([&] {
              StoreClient(address(), {.name = "yours", .secret = kSecret}, "run", DeadlineInAMinute());
            }),
            "rank 0 is of another job than 'yours'");
  for (const std::string secret : {"", "known to feW", "known to few "}) {
    EXPECT_EQ(ErrorOf<Refused>([&] {
                StoreClient(address(), {.name = "mine", .secret = secret}, "run", DeadlineInAMinute());
              }),
              "GRADSYNC_SECRET is not the one of rank 0");
  }
  EXPECT_EQ(ErrorOf<std::runtime_error>(
                [&] { StoreClient(address(), job_, "an earlier run", DeadlineInAMinute()); }),
            "what listens there is not rank 0 of this run");
  ExpectToServe();
}

// All that goes over one connection, in both directions, frame by frame.
struct Recording {
  std::vector<Frame> of_client;
  std::vector<Frame> of_rank0;
};

// A rank joins through somebody who hands on every frame, and writes it down.
Recording RecordJoin(const HostPort& rank0, const JobIdentity& job, int rank) {
  Recording recording;
  const auto listeners = ListenAnywhere();
  std::thread listens_in([&] {
    Channel client(Accepted(listeners[0]));
    Channel server(Connect(rank0, DeadlineInAMinute()));
    for (int i = 0; i < 2; ++i) {
      recording.of_client.push_back(client.Receive(kMaxPayloadBytes, DeadlineInAMinute()));
      server.Send(recording.of_client.back(), DeadlineInAMinute());
      recording.of_rank0.push_back(server.Receive(kMaxPayloadBytes, DeadlineInAMinute()));
      client.Send(recording.of_rank0.back(), DeadlineInAMinute());
    }
  });
  StoreClient client({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, job, "run", DeadlineInAMinute());
  EXPECT_TRUE(client.Join(rank, "host", "", DeadlineInAMinute()).has_value());
  listens_in.join();
  return recording;
}

TEST_F(StoreTest, TheSecretNeverTravelsAndARecordedExchangeIsOfNoUse) {
  const auto other = Client();
  std::thread join([&] { other->Join(2, "host 2", "", DeadlineInAMinute()); });
  const Recording recording = RecordJoin(address(), job_, 1);
  join.join();
  for (const auto& frames : {recording.of_client, recording.of_rank0}) {
    for (const Frame& frame : frames) EXPECT_THAT(frame.payload, Not(HasSubstr(kSecret)));
  }

  // Sent again, what the rank said proves nothing, because rank 0 has another nonce.
  StoreServer next(ListenAnywhere(),
                   {.job = job_, .run = "run", .check = [](int, const std::string&) { return ""; }});
  Channel replay(Connect({"127.0.0.1", std::to_string(next.port())}, DeadlineInAMinute()));
  replay.Send(recording.of_client[0], DeadlineInAMinute());
  EXPECT_EQ(replay.Receive(kMaxPayloadBytes, DeadlineInAMinute()).type, FrameType::kChallenge);
  replay.Send(recording.of_client[1], DeadlineInAMinute());
  const Frame answer = replay.Receive(kMaxPayloadBytes, DeadlineInAMinute());
  EXPECT_EQ(answer.type, FrameType::kNo);
  EXPECT_EQ(answer.payload, "GRADSYNC_SECRET is not the one of rank 0");

  // What rank 0 said cannot be replayed either, because the rank has another nonce.
  const auto listeners = ListenAnywhere();
  std::thread impostor([&] {
    Channel client(Accepted(listeners[0]));
    client.Receive(kMaxPayloadBytes, DeadlineInAMinute());
    client.Send(recording.of_rank0[0], DeadlineInAMinute());
  });
  EXPECT_EQ(
      ErrorOf<Refused>([&] {
        StoreClient({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, job_, "run", DeadlineInAMinute());
      }),
      "GRADSYNC_SECRET is not the one of rank 0");
  impostor.join();
}

// Somebody who does not know the secret listens where rank 0 should.
TEST_F(StoreTest, AStrangerWhoListensLearnsNothingAndCannotAnswer) {
  const auto guess = [](const std::string& hello) {
    return ComputeMac("a guess", "rank 0\n" + hello + "\nnonce");
  };
  const auto nothing = [](const std::string&) { return std::string(); };
  for (const auto proof : {+guess, +nothing}) {
    const auto listeners = ListenAnywhere();
    std::vector<Frame> heard;
    std::thread impostor([&] {
      Channel client(Accepted(listeners[0]));
      heard.push_back(client.Receive(kMaxPayloadBytes, DeadlineInAMinute()));
      client.Send({FrameType::kChallenge, "nonce\n" + proof(heard[0].payload)}, DeadlineInAMinute());
      EXPECT_EQ(ErrorOf<std::runtime_error>(
                    [&] { heard.push_back(client.Receive(kMaxPayloadBytes, DeadlineInAMinute())); }),
                "rank 0 closed the connection");
    });
    EXPECT_EQ(
        ErrorOf<Refused>([&] {
          StoreClient({"127.0.0.1", std::to_string(PortOf(listeners[0]))}, job_, "run", DeadlineInAMinute());
        }),
        "GRADSYNC_SECRET is not the one of rank 0");
    impostor.join();
    // No proof, of which a weak secret could be guessed: only the names and a nonce.
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_THAT(heard[0].payload, testing::MatchesRegex("gradsync rendezvous 4\nmine\nrun\n[0-9a-f]{32}"));
  }
}

TEST_F(StoreTest, AStrangerWhoConnectsIsTurnedAway) {
  const std::string hello = std::string(kProtocol) + "\nmine\nrun\nnonce";
  const auto join =
      [&](const std::function<std::string(const std::string& nonce, const std::string& proof)>& proof) {
        Channel stranger(Connected());
        stranger.Send({FrameType::kHello, hello}, DeadlineInAMinute());
        const std::string challenge = stranger.Receive(kMaxPayloadBytes, DeadlineInAMinute()).payload;
        const size_t end = challenge.find('\n');
        const std::string own = proof(challenge.substr(0, end), challenge.substr(end + 1));
        stranger.Send({FrameType::kJoin, own + "\n1\nhost\n"}, DeadlineInAMinute());
        return stranger.Receive(kMaxPayloadBytes, DeadlineInAMinute()).type;
      };
  EXPECT_EQ(join([](const auto&, const auto&) { return ""; }), FrameType::kNo);
  EXPECT_EQ(join([](const auto&, const auto& proof) { return proof; }), FrameType::kNo);  // rank 0's own
  EXPECT_EQ(join([&](const auto& nonce, const auto&) { return ProofOfRank("", hello, nonce, "1\nhost\n"); }),
            FrameType::kNo);
  EXPECT_EQ(
      join([&](const auto& nonce, const auto&) { return ProofOfRank(kSecret, hello, nonce, "2\nhost\n"); }),
      FrameType::kNo);  // of another rank
  for (const size_t digit : {0u, 7u, 8u, 63u}) {
    EXPECT_EQ(join([&](const auto& nonce, const auto&) {
                std::string almost = ProofOfRank(kSecret, hello, nonce, "1\nhost\n");
                almost[digit] = almost[digit] == '0' ? '1' : '0';
                return almost;
              }),
              FrameType::kNo)
        << digit;
  }
  // Nor is anything that is too long for a stranger read to its end.
  EXPECT_EQ(ErrorOf<std::runtime_error>(
                [&] { join([](const auto&, const auto&) { return std::string(100'000, '0'); }); }),
            "rank 0 closed the connection");
  // It cannot ask anything without a proof.
  for (const FrameType type : {FrameType::kSet, FrameType::kGet, FrameType::kFail, FrameType::kJoin}) {
    Channel stranger(Connected());
    stranger.Send({type, "1\nkey"}, DeadlineInAMinute());
    EXPECT_EQ(stranger.Receive(kMaxPayloadBytes, DeadlineInAMinute()).type, FrameType::kNo);
  }
  ExpectToServe();
}

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

std::string Bytes(char type, uint32_t payload_bytes, const std::string& payload) {
  const uint32_t length = htonl(payload_bytes);
  return std::string(1, type) + std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + payload;
}

TEST_F(StoreTest, HangsUpOnStrangers) {
  for (const std::string& bytes : {
           std::string("GET / HTTP/1.1\r\nHost: rank0\r\n\r\n"),
           Bytes('s', 8, "key\nword"),      // before a hello
           Bytes('h', 0xffffffff, ""),      // a hello of 4 GiB
           Bytes('h', (64 << 10) + 1, ""),  // a long one
           Bytes('h', 3, "old"),            // another protocol
           Bytes('h', 0, ""),
           std::string(100'000, '\xff'),
       }) {
    const FileDescriptor socket = Connected();
    Send(socket, bytes);
    EXPECT_TRUE(IsClosed(socket, seconds(30))) << bytes.substr(0, 30);
  }
  ExpectToServe();
}

TEST_F(StoreTest, HangsUpOnRanksThatAskTooMuch) {
  // Too few words, an index or a size that is none, values that are none, or too many of them.
  const auto meets = [](const std::string& what) {
    return Bytes('m', static_cast<uint32_t>(what.size()) + 2, "1\n" + what);
  };
  for (const std::string& bytes :
       {Bytes('s', 258, std::string(257, 'k') + "\n"), Bytes('s', (4 << 20) + 1, ""), Bytes('g', 5, "x\nkey"),
        Bytes('?', 0, ""), meets("2\n1\nkey"), meets("2\n2\nkey\n1\nx"), meets("9\n1\nkey\n1\nx"),
        meets("2\n1\nkey\n2\nx"), meets("2\n1\nkey\n1\nx1\nx1\nx")}) {
    StoreServer server(ListenAnywhere(), {.check = [](int, const std::string&) { return ""; }});
    const FileDescriptor socket = Connect({"127.0.0.1", std::to_string(server.port())}, DeadlineInAMinute());
    Channel rank{FileDescriptor(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0))};
    const std::string hello = std::string(kProtocol) + "\n\n\nnonce";
    rank.Send({FrameType::kHello, hello}, DeadlineInAMinute());
    const std::string nonce = rank.Receive(kMaxPayloadBytes, DeadlineInAMinute()).payload.substr(0, 32);
    const std::string rest = "1\nhost\n";
    rank.Send({FrameType::kJoin, ProofOfRank("", hello, nonce, rest) + "\n" + rest}, DeadlineInAMinute());
    ASSERT_EQ(rank.Receive(kMaxPayloadBytes, DeadlineInAMinute()).type, FrameType::kYes);
    Send(socket, bytes);
    EXPECT_TRUE(IsClosed(socket, seconds(30)));
  }
}

TEST_F(StoreTest, HangsUpOnThoseWhoSayNothing) {
  const FileDescriptor silent = Connected();
  const FileDescriptor greets = Connected();
  const std::string hello = std::string(kProtocol) + "\nmine\nrun\nnonce";
  Send(greets, Bytes('h', static_cast<uint32_t>(hello.size()), hello));
  EXPECT_TRUE(IsClosed(silent, seconds(30)));
  EXPECT_TRUE(IsClosed(greets, seconds(30)));
}

// Before those who come later have been there for too long.
TEST_F(StoreTest, TheOldestOfTooManyStrangersGo) {
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(Connected());
  const auto clients = JoinAll();
  for (int i = 0; i < 100; ++i) strangers.push_back(Connected());
  Channel oldest(std::move(strangers.front()));
  EXPECT_EQ(oldest.Receive(kMaxStrangerBytes, DeadlineInAMinute()).type, FrameType::kLater)
      << "it may come again";
  EXPECT_FALSE(IsClosed(strangers.back(), milliseconds(0)));
  clients[0]->Set("alive", "yes", DeadlineInAMinute());
  EXPECT_EQ(clients[0]->Get("alive", DeadlineInAMinute()), "yes");
}

// A rank that was turned away between the challenge and its proof comes again.
TEST_F(StoreTest, AJoiningRankThatStrangersHavePushedOutMayComeAgain) {
  const auto client = Client();
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 65; ++i) strangers.push_back(Connected());
  Channel next(std::move(strangers.front()));
  EXPECT_EQ(next.Receive(kMaxStrangerBytes, DeadlineInAMinute()).type, FrameType::kLater);
  EXPECT_EQ(client->Join(1, "host 1", "", DeadlineInAMinute()), std::nullopt);
}

// With no descriptor left it waits, and serves when there are some again.
TEST_F(StoreTest, DoesNotSpinWithoutDescriptors) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<FileDescriptor> all;
  do {
    all.push_back(OpenFile("/dev/null", O_RDONLY));
  } while (all.back().get() < 100);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
  const rlimit limit = {static_cast<rlim_t>(all.back().get()) + 1, old_limit.rlim_max};
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

}  // namespace
}  // namespace gradsync::comm
