#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/factory.h"
#include "comm/rendezvous/job.h"
#include "comm/rendezvous/network.h"
#include "comm/rendezvous/protocol.h"
#include "comm/rendezvous/rendezvous.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"
#include "model/tensor/tensor.h"

// What grows with the number of ranks.
namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

// Hands the frames of all ranks but rank 0 on to rank 0, and counts them.
class Counter {
 public:
  explicit Counter(const std::string& url) : rank0_{"127.0.0.1", url.substr(url.rfind(':') + 1)} {
    thread_ = std::thread([this] { Accept(); });
  }
  ~Counter() {
    is_stopping_ = true;
    thread_.join();
    for (std::thread& thread : connections_) thread.join();
  }
  std::string url() const { return Join("tcp://127.0.0.1:", PortOf(listeners_[0])); }

  std::atomic<int64_t> num_requests{0};
  std::atomic<int64_t> num_bytes{0};

 private:
  void Accept() {
    while (!is_stopping_) {
      if (!WaitFor(listeners_[0], POLLIN, In(milliseconds(10)))) continue;
      FileDescriptor socket(accept4(listeners_[0].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      connections_.emplace_back([this, fd = std::make_shared<FileDescriptor>(std::move(socket))] {
        ErrorOf<std::runtime_error>([&] { HandOn(std::move(*fd)); });
      });
    }
  }
  void HandOn(FileDescriptor socket) {
    Channel rank(std::move(socket));
    Channel rank0(Connect(rank0_, DeadlineInAMinute()));
    for (;;) {
      const Frame request = rank.Receive(kMaxPayloadBytes, DeadlineInAMinute());
      rank0.Send(request, DeadlineInAMinute());
      const Frame answer = rank0.Receive(kMaxPayloadBytes, DeadlineInAMinute());
      ++num_requests;
      num_bytes += std::ssize(request.payload) + std::ssize(answer.payload);
      rank.Send(answer, DeadlineInAMinute());
    }
  }

  const HostPort rank0_;
  const std::vector<FileDescriptor> listeners_ = Listen({"127.0.0.1", "0"}, DeadlineInAMinute(), [] {});
  std::atomic<bool> is_stopping_{false};
  std::vector<std::thread> connections_;
  std::thread thread_;
};

// Runs `body` on each of `size` ranks of a job, and gives `check` what the ranks but 0 asked rank 0.
void CountFor(int size, const std::function<void(const World& world)>& body,
              const std::function<void(const Counter& counter)>& check) {
  const std::string url = FreeTcpUrl();
  Counter counter(url);
  RunRanks(size, [&](int rank) {
    World world{.rank = rank,
                .size = size,
                .local_rank = rank,
                .local_size = size,
                .rendezvous = rank == 0 ? url : counter.url(),
                .launcher = "self",
                .host = "a host of 20 letters"};
    world.job = std::make_shared<Job>(world, Terms{}, kLong);
    body(world);
  });
  check(counter);
}

// A rank says hello, joins, and asks once for each exchange, however many ranks there are. What it hears is
// one value of each rank.
TEST(LargeWorldTest, RequestsAndBytesOfARankGrowNoFasterThanTheWorld) {
  constexpr int64_t kValueBytes = 100;
  for (const int size : {4, 16, 64}) {
    CountFor(
        size,
        [&](const World& world) {
          for (const int num_values : {1, size}) {
            const std::vector<std::string> own(static_cast<size_t>(num_values),
                                               std::string(kValueBytes, 'x'));
            EXPECT_EQ(Rendezvous(world, kLong).Exchange(own),
                      std::vector<std::string>(static_cast<size_t>(size), own[0]));
          }
        },
        [&](const Counter& counter) {
          EXPECT_EQ(counter.num_requests, 4 * (size - 1));
          // Each rank exchanges 21 bytes of a host and three values for every rank. The rest does not grow.
          EXPECT_LE(counter.num_bytes, (size - 1) * (size * (21 + 3 * (kValueBytes + 6)) + 1000));
        });
  }
}

TEST(LargeWorldTest, AGroupIsOneRequestOfEachRank) {
  for (const std::string backend : {"gloo", "shm"}) {
    for (const int size : {4, 16}) {
      CountFor(
          size,
          [&](const World& world) {
            const auto group = MakeProcessGroup(
                {.backend = backend, .world = world, .interface_or_address = {}}, model::CpuDevice());
            const auto tensor = model::Tensor::Zeros(model::CpuDevice(), {100}, model::DType::kF32);
            std::fill_n(tensor.data<float>(), 100, 1.0f);
            group->AllReduce(tensor, ReduceOp::kSum).Wait();
            EXPECT_EQ(tensor.data<float>()[99], static_cast<float>(size));
            std::fill_n(tensor.data<float>(), 100, static_cast<float>(world.rank));
            group->Broadcast(tensor, size - 3).Wait();
            EXPECT_EQ(tensor.data<float>()[99], static_cast<float>(size - 3));
            group->Barrier();
          },
          [&](const Counter& counter) {
            // Where ranks are few, short messages over gloo have connections of their own.
            const int requests = size == 4 && backend == "gloo" ? 4 : 3;
            EXPECT_EQ(counter.num_requests, requests * (size - 1)) << backend;
            // For every rank, gloo exchanges two addresses of 136 bytes, a nonce and a timeout.
            EXPECT_LE(counter.num_bytes, (size - 1) * (size * 2 * (2 * 136 + 32 + 16 + 25) + 1000))
                << backend;
          });
    }
  }
}

}  // namespace
}  // namespace gradsync::comm
