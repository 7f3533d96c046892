#include "comm/gloo/gloo_process_group.h"

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

// What is special about gloo: its tuning, its networks, a mismatch that it cannot see.
namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;
using std::chrono::milliseconds;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const model::DevicePtr& Cpu() {
  static const model::DevicePtr device = model::CpuDevice();
  return device;
}

Tensor Zeros(int64_t numel, DType dtype = DType::kF32) { return Tensor::Zeros(Cpu(), {numel}, dtype); }

GroupOptions OptionsFor(int rank, int size, const TemporaryDirectory& directory) {
  GroupOptions options;
  options.world = {.rank = rank,
                   .size = size,
                   .local_rank = rank,
                   .local_size = size,
                   .rendezvous = "file://" + directory.path(),
                   .launcher = "self"};
  return options;
}

std::vector<std::unique_ptr<ProcessGroup>> Connect(int size, const std::function<void(GroupOptions&)>& change,
                                                   const GlooTuning& tuning = {}) {
  const TemporaryDirectory directory;
  std::vector<std::unique_ptr<ProcessGroup>> groups(static_cast<size_t>(size));
  RunRanks(size, [&](int rank) {
    GroupOptions options = OptionsFor(rank, size, directory);
    change(options);
    groups[static_cast<size_t>(rank)] = MakeGlooGroup(options, Cpu(), nullptr, tuning);
  });
  return groups;
}

// Values whose sums depend on the order of additions.
Tensor Uneven(int rank, int64_t numel) {
  std::vector<float> values(static_cast<size_t>(numel));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<float>((i * 7919 + static_cast<size_t>(rank) * 104729) % 100003) * 0.37f + 1e5f * rank;
  }
  return Tensor::From<float>(Cpu(), {numel}, values);
}

// Every collective on `numel` elements, against results computed here.
void CheckResults(ProcessGroup& group, int64_t numel) {
  const int rank = group.rank();
  const int size = group.size();
  std::vector<float> sum = Uneven(0, numel).ToVector<float>();
  for (int peer = 1; peer < size; ++peer) {
    const std::vector<float> values = Uneven(peer, numel).ToVector<float>();
    for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
  }
  const Tensor reduced = Uneven(rank, numel);
  const Tensor copied = Uneven(rank, numel);
  const Tensor gathered = Zeros(numel * size);
  const Tensor scattered = Zeros(numel);
  const Work reduce = group.AllReduce(reduced, ReduceOp::kSum);
  const Work broadcast = group.Broadcast(copied, size - 1);
  const Work gather = group.AllGather(Uneven(rank, numel), gathered);
  for (Work work : {reduce, broadcast, gather}) work.Wait();
  EXPECT_EQ(reduced.ToVector<float>(), sum);
  EXPECT_EQ(copied.ToVector<float>(), Uneven(size - 1, numel).ToVector<float>());
  for (int peer = 0; peer < size; ++peer) {
    EXPECT_EQ(gathered.Slice(peer * numel, {numel}).ToVector<float>(), Uneven(peer, numel).ToVector<float>());
  }
  // Everyone gathered the same, so a maximum changes nothing.
  group.ReduceScatter(gathered, scattered, ReduceOp::kMax).Wait();
  EXPECT_EQ(scattered.ToVector<float>(), Uneven(rank, numel).ToVector<float>());
}

// How results are cut into messages must not be seen in them. Small segments also make every window wrap
// around.
TEST(GlooTuningTest, ResultsDoNotDependOnIt) {
  for (const int size : {2, 3, 4, 7}) {
    for (const size_t segment_bytes : {64, 1000}) {
      const auto as_they_are = [](GroupOptions&) {};
      auto groups = Connect(size, as_they_are, {.direct_bytes = 0, .segment_bytes = segment_bytes});
      RunRanks(size, [&](int rank) {
        for (const int64_t numel : {1, 5, 999, static_cast<int>(segment_bytes) * 3 + 17}) {
          CheckResults(*groups[static_cast<size_t>(rank)], numel);
        }
      });
    }
  }
}

// What a thread keeps for what it receives is no larger than what is reduced.
TEST(GlooTuningTest, ShortVectorsTakeLittleMemory) {
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
    }
    return 0LL;
  };
  constexpr int kSize = 8;
  auto groups = Connect(kSize, [](GroupOptions&) {});
  const auto before_kib = resident_kib();
  // Too long to be exchanged whole.
  RunRanks(kSize, [&](int rank) {
    groups[static_cast<size_t>(rank)]->AllReduce(Zeros(10 << 10), ReduceOp::kSum).Wait();
  });
  EXPECT_LT(resident_kib() - before_kib, 16 << 10);
}

// gloo_own adds around gloo's ring, which begins with another rank for each part, and rounds at each step.
TEST(GlooOwnTest, AddsInTheRingsOrder) {
  constexpr int64_t kNumel = 9999;
  std::vector<std::vector<float>> sums;
  for (const std::string backend : {"gloo", "gloo_own"}) {
    auto groups = Connect(3, [&](GroupOptions& options) { options.backend = backend; });
    RunRanks(3, [&](int rank) {
      ProcessGroup& group = *groups[static_cast<size_t>(rank)];
      EXPECT_EQ(group.backend(), backend);
      const Tensor tensor = Uneven(rank, kNumel);
      group.AllReduce(tensor, ReduceOp::kSum).Wait();
      if (rank == 0) sums.push_back(tensor.ToVector<float>());
    });
  }
  EXPECT_NE(sums[0], sums[1]);
  EXPECT_THAT(sums[1], testing::Pointwise(testing::FloatNear(0.1f), sums[0]));
}

// Whatever differs: each rank's messages have another slot.
TEST(GlooMismatchTest, EndsAtTheDeadlineWithAHint) {
  const std::vector<std::function<Work(ProcessGroup & group)>> collectives = {
      [](ProcessGroup& group) { return group.AllReduce(Zeros(1000), ReduceOp::kSum); },
      [](ProcessGroup& group) { return group.AllReduce(Zeros(2000), ReduceOp::kSum); },
      [](ProcessGroup& group) { return group.AllReduce(Zeros(1000), ReduceOp::kMax); },
      [](ProcessGroup& group) { return group.AllReduce(Zeros(1000, DType::kI32), ReduceOp::kSum); }};
  for (size_t i = 0; i < 6; ++i) {
    const size_t other = 1 + i % 3;
    auto groups = Connect(2, [&](GroupOptions& options) {
      options.backend = i < 3 ? "gloo" : "gloo_own";
      options.timeout = std::chrono::seconds(1);
    });
    const auto errors = ErrorsOfRanks(
        2, [&](int rank) { collectives[rank == 0 ? 0 : other](*groups[static_cast<size_t>(rank)]).Wait(); });
    EXPECT_THAT(errors[0] + errors[1],
                HasSubstr("made no progress for 1.0 s, or issues different collectives"))
        << i;
    for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("all_reduce #0 of ")) << i;
  }
}

// On which the lengths of messages depend.
TEST(GlooOptionsTest, RanksOfUnequalTimeoutsTakeTheShortest) {
  for (const size_t shortest : {0, 1}) {
    auto groups = Connect(2, [&](GroupOptions& options) {
      options.timeout = std::chrono::seconds(static_cast<size_t>(options.world.rank) == shortest ? 3 : 60);
    });
    RunRanks(2, [&](int rank) { CheckResults(*groups[static_cast<size_t>(rank)], 2'000'000); });
    const std::string error =
        ErrorOf<CollectiveError>([&] { groups[1 - shortest]->AllReduce(Zeros(1), ReduceOp::kSum).Wait(); });
    EXPECT_THAT(error, HasSubstr("made no progress for 3.0 s"));
  }
}

// Then no thread takes it, unless one is awake because it has just started.
TEST(GlooQueueTest, AShortOneIsLeftToACallerThatWaitsAtOnce) {
  auto groups = Connect(2, [](GroupOptions&) {});
  const auto deadline = DeadlineInAMinute();
  for (bool is_left = false; !is_left;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    Work work = groups[0]->AllReduce(Zeros(10), ReduceOp::kSum, Waits::kAtOnce);
    std::thread other([&] { groups[1]->AllReduce(Zeros(10), ReduceOp::kSum, Waits::kAtOnce).Wait(); });
    std::this_thread::sleep_for(milliseconds(50));
    is_left = !work.Done();
    work.Wait();
    other.join();
  }
  // Neither a long one nor one that is waited for later is left to the caller.
  const Work taken = groups[0]->AllReduce(Zeros(100'000), ReduceOp::kSum, Waits::kAtOnce);
  groups[1]->AllReduce(Zeros(100'000), ReduceOp::kSum, Waits::kAtOnce).Wait();
  const Work later = groups[0]->AllReduce(Zeros(10), ReduceOp::kSum);
  groups[1]->AllReduce(Zeros(10), ReduceOp::kSum).Wait();
}

TEST(GlooOptionsTest, ThreadsMustBePositive) {
  GroupOptions options;
  options.num_threads = 0;
  const auto errors = ErrorsOfRanks(1, [&](int) { MakeGlooGroup(options, Cpu(), nullptr); });
  EXPECT_EQ(errors[0], "gloo: 0 communication threads, expected at least 1");
}

TEST(GlooOptionsTest, AnUnknownInterfaceIsNamed) {
  const TemporaryDirectory directory;
  const auto errors = ErrorsOfRanks(2, [&](int rank) {
    GroupOptions options = OptionsFor(rank, 2, directory);
    options.interface_or_address = "203.0.113.7";
    MakeGlooGroup(options, Cpu(), nullptr);
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(
        error,
        "interface or address is '203.0.113.7', expected a network interface or an address of this host");
  }
}

TEST(GlooOptionsTest, LoopbackByNameOrAddress) {
  for (const std::string name : {"lo", "127.0.0.1", "localhost"}) {
    auto groups = Connect(2, [&](GroupOptions& options) { options.interface_or_address = name; });
    RunRanks(2, [&](int rank) { groups[static_cast<size_t>(rank)]->Barrier(); });
  }
}

// Would end this test.
TEST(GlooIdentityTest, APeerThatHasGoneKillsNobody) {
  const BlockSigpipe block_sigpipe;
  raise(SIGPIPE);
}

// Whether the thread of this process blocks SIGPIPE, or waits for a while until it does.
bool BlocksSigpipe(pid_t thread) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    std::ifstream status(Join("/proc/self/task/", thread, "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:") && (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1) & 1) != 0)
        return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Nor on the caller's own thread, which runs what it waits for at once, while the peer is not there.
TEST(GlooIdentityTest, APeerThatHasGoneDoesNotKillTheCaller) {
  auto groups = Connect(2, [](GroupOptions&) {});
  std::atomic<pid_t> caller = 0;
  RunRanks(2, [&](int rank) {
    ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    if (rank == 0) {
      caller = gettid();
    } else {
      while (caller == 0) std::this_thread::yield();
      EXPECT_TRUE(BlocksSigpipe(caller));
    }
    group.AllReduce(Zeros(1), ReduceOp::kSum, Waits::kAtOnce).Wait();
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGPIPE), 0) << "afterwards it is the caller's again";
  });
}

// What rank 0 of two says when a rank 1 made by hand proves itself by this secret.
std::string ErrorWithSecret(const std::string& secret) {
  const TemporaryDirectory directory;
  return ErrorsOfRanks(2, [&](int rank) {
    GroupOptions options = OptionsFor(rank, 2, directory);
    options.timeout = std::chrono::seconds(5);
    options.world.job_secret = "a secret";
    if (rank == 0) {
      MakeGlooGroup(options, Cpu(), nullptr);
      return;
    }
    const BlockSigpipe block_sigpipe;
    Rendezvous rendezvous(options.world, std::chrono::seconds(30));
    std::vector<std::string> proofs;  // until the device's thread has ended, which reads and writes them
    const auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    std::vector<std::shared_ptr<gloo::transport::Context>> contexts;
    std::string note = std::string(32, '0') + "0000000000005000";  // a nonce, milliseconds
    size_t address_bytes = 0;
    for (int i = 0; i < 2; ++i) {
      contexts.push_back(device->createContext(1, 2));
      contexts.back()->setTimeout(options.timeout);
      const std::vector<char> address = contexts.back()->createPair(0)->address().bytes();
      note.append(address.begin(), address.end());
      address_bytes = address.size();
    }
    const std::string theirs = rendezvous.Exchange({note})[0];
    for (size_t i = 0; i < contexts.size(); ++i) {
      const char* const address = theirs.data() + 48 + i * address_bytes;
      contexts[i]->getPair(0)->connect({address, address + address_bytes});
    }
    proofs.assign(2, ComputeMac(secret, Join("gloo ", theirs.substr(0, 32), " 1")));
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> buffers;
    for (size_t i = 0; i < contexts.size(); ++i) {
      buffers.push_back(contexts[i]->createUnboundBuffer(proofs[i].data(), proofs[i].size()));
      const uint64_t slot = ~uint64_t{0};
      if (i % 2 == 0) {
        buffers[i]->recv(0, slot, 0, proofs[i].size());
      } else {
        buffers[i]->send(0, slot, 0, proofs[i].size());
      }
    }
    ErrorOf<CollectiveError>([&] { rendezvous.Exchange({""}); });  // until rank 0 has gone
  })[0];
}

TEST(GlooIdentityTest, EachConnectionProvesTheSecret) {
  for (const std::string secret : {"a guess", ""}) {
    EXPECT_EQ(ErrorWithSecret(secret),
              "rank 0: could not connect to the other ranks: whoever connected as rank 1 is not of this job");
  }
  EXPECT_THAT(ErrorWithSecret("a secret"), HasSubstr("rank 1 "));  // which goes no further
  EXPECT_THAT(ErrorWithSecret("a secret"), Not(HasSubstr("whoever")));
}

// What rank 0 of two says when rank 1 tells that it is at this port of loopback, but never connects.
std::string ErrorWithPeerAt(uint16_t port) {
  sockaddr_storage at{};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(at);
  ipv4.sin_family = AF_INET;
  ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ipv4.sin_port = htons(port);
  const std::vector<char> address = gloo::transport::tcp::Address(at).bytes();
  std::string note = std::string(32, '0') + "0000000000002000";
  for (int i = 0; i < 2; ++i) note.append(address.begin(), address.end());
  const TemporaryDirectory directory;
  return ErrorsOfRanks(2, [&](int rank) {
    GroupOptions options = OptionsFor(rank, 2, directory);
    options.timeout = std::chrono::seconds(2);
    if (rank == 0) {
      MakeGlooGroup(options, Cpu(), nullptr);
      return;
    }
    Rendezvous rendezvous(options.world, std::chrono::seconds(30));
    rendezvous.Exchange({note});
    ErrorOf<CollectiveError>([&] { rendezvous.Exchange({""}); });  // until rank 0 has gone
  })[0];
}

TEST(GlooIdentityTest, APeerThatDoesNotConnectIsNamedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  // In some versions of gloo the rank with the lower port listens: here rank 0, then rank 1.
  for (const uint16_t port : {65535, 1}) {
    EXPECT_THAT(ErrorWithPeerAt(port), ContainsRegex("^rank 0: could not connect to the other ranks: rank 1 "
                                                     "(made no progress for 2.0 s|closed the connection)$"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
}

// The world of a rank on a host of its own, whose launcher says nothing of hosts.
void PutOnOwnHost(World& world, const std::string& rendezvous) {
  world.local_size = 0;
  world.host = Join("host", world.rank);
  world.rendezvous = rendezvous;
}

// Ranks of several hosts use the network on which they met, or the one that leads out.
TEST(GlooOptionsTest, RanksOnDifferentHostsFindTheirNetwork) {
  const std::string outer = OuterAddress();
  if (outer.empty()) GTEST_SKIP() << "this machine has no network";
  const TemporaryDirectory directory;
  for (const std::string& place : {FreeTcpUrl(outer), "file://" + directory.path()}) {
    auto groups = Connect(3, [&](GroupOptions& options) { PutOnOwnHost(options.world, place); });
    RunRanks(3, [&](int rank) { groups[static_cast<size_t>(rank)]->Barrier(); });
  }
}

// Also if only some of them are told which one.
TEST(GlooOptionsTest, TheNetworkMayBeGivenOnSomeHostsOnly) {
  const std::string outer = OuterAddress();
  if (outer.empty()) GTEST_SKIP() << "this machine has no network";
  for (const int told : {0, 1}) {
    const std::string place = FreeTcpUrl(outer);
    auto groups = Connect(2, [&](GroupOptions& options) {
      PutOnOwnHost(options.world, place);
      if (options.world.rank == told) options.interface_or_address = outer;
    });
    RunRanks(2, [&](int rank) { groups[static_cast<size_t>(rank)]->Barrier(); });
  }
}

// Where rank 0 listens does not tell it by which address others reach it: theirs do.
TEST(GlooOptionsTest, ARankZeroThatListensEverywhereFindsItsNetwork) {
  const std::string outer = OuterAddress();
  if (outer.empty()) GTEST_SKIP() << "this machine has no network";
  const std::string place = FreeTcpUrl(outer);
  auto groups = Connect(2, [&](GroupOptions& options) {
    const bool listens = options.world.rank == 0;
    PutOnOwnHost(options.world, listens ? "tcp://0.0.0.0" + place.substr(place.rfind(':')) : place);
  });
  RunRanks(2, [&](int rank) { groups[static_cast<size_t>(rank)]->Barrier(); });
}

TEST(GlooOptionsTest, LoopbackDoesNotServeDifferentHosts) {
  const std::string url = FreeTcpUrl("127.0.0.1");
  for (const std::string chosen : {"", "lo", "localhost"}) {
    const auto errors = ErrorsOfRanks(2, [&](int rank) {
      GroupOptions options = OptionsFor(rank, 2, TemporaryDirectory());
      PutOnOwnHost(options.world, url);
      options.interface_or_address = chosen;
      MakeGlooGroup(options, Cpu(), nullptr);
    });
    for (const std::string& error : errors) {
      EXPECT_EQ(error,
                Join("gloo would use ", chosen.empty() ? "127.0.0.1" : chosen,
                     ", which no other host reaches, but ranks 0 and 1 are on different hosts (name an "
                     "interface or an address)"));
    }
  }
}

// What the launcher says of hosts is not believed.
TEST(GlooOptionsTest, ALauncherThatSaysNothingOfHosts) {
  const std::string url = FreeTcpUrl("127.0.0.1");
  auto groups = Connect(2, [&](GroupOptions& options) {
    options.world.local_size = 0;
    options.world.rendezvous = url;
  });
  RunRanks(2, [&](int rank) { groups[static_cast<size_t>(rank)]->Barrier(); });
}

}  // namespace
}  // namespace gradsync::comm
