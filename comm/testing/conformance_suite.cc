#include "comm/testing/conformance_suite.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "comm/rendezvous/job.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::comm {

std::optional<World> ConformanceTest::world;
thread_local model::DevicePtr ConformanceTest::here_ = model::CpuDevice();

void ConformanceTest::OnAllRanks(const std::function<void(ProcessGroup& group)>& body) {
  if (world.has_value()) {
    if (world->rank >= size()) return;
    std::vector<int> members(static_cast<size_t>(size()));
    std::iota(members.begin(), members.end(), 0);
    const auto group = MakeProcessGroup({.backend = GetParam().backend,
                                         .backend_options = GetParam().options,
                                         .world = PartOf(*world, members),
                                         .interface_or_address = {}},
                                        here_);
    return body(*group);
  }
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < size(); ++rank) devices.push_back(GetParam().device(rank));
  auto groups = MakeGroups(GetParam().backend, devices, std::chrono::seconds(60), GetParam().ranks_per_host,
                           GetParam().options);
  RunRanks(size(), [&](int rank) {
    here_ = devices[static_cast<size_t>(rank)];
    auto& group = groups[static_cast<size_t>(rank)];
    body(*group);
    // Ranks of nccl wait for each other in the end, and rank 0 of hierarchical for all.
    if (group->backend() == "nccl" || group->backend() == "hierarchical") group.reset();
  });
}

namespace {

using model::BF16;
using model::DType;
using model::Tensor;

const model::DevicePtr& Here() { return ConformanceTest::here(); }

// Nothing, fewer elements than ranks, odd, large.
const std::vector<int64_t> kNumels = {0, 1, 3, 1023, 300'000};

// Small integers, different on every rank: exact in every dtype, and so are their sums. They repeat.
constexpr int64_t kPeriod = 7;
int64_t Value(int rank, int64_t i) { return (i % kPeriod) + 3 * rank + 1; }

template <class T>
Tensor Filled(int rank, int64_t numel, int64_t offset = 0) {
  std::vector<T> values(static_cast<size_t>(numel));
  for (int64_t i = 0; i < numel; ++i)
    values[static_cast<size_t>(i)] = T(static_cast<float>(Value(rank, offset + i)));
  return Tensor::From<T>(Here(), {numel}, values);
}

double Expected(ReduceOp op, int size, int64_t i) {
  double result = static_cast<double>(Value(0, i));
  for (int rank = 1; rank < size; ++rank) {
    const auto value = static_cast<double>(Value(rank, i));
    if (op == ReduceOp::kMax) {
      result = std::max(result, value);
    } else if (op == ReduceOp::kMin) {
      result = std::min(result, value);
    } else {
      result += value;
    }
  }
  return op == ReduceOp::kMean ? result / size : result;
}

template <class T>
double AsDouble(T value) {
  if constexpr (std::is_same_v<T, BF16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

// Counts the wrong elements, so that a failure prints one line and not a million.
template <class T>
int64_t CountWrong(const Tensor& tensor, ReduceOp op, int size, int64_t offset = 0) {
  // NCCL's mean is rounded in the factor and in the product.
  const double tolerance = op == ReduceOp::kMean ? (std::is_same_v<T, BF16> ? 8e-3 : 2e-7) : 0;
  const std::vector<T> values = tensor.ToVector<T>();
  std::array<double, kPeriod> period;
  for (int64_t i = 0; i < kPeriod; ++i) period[static_cast<size_t>(i)] = Expected(op, size, offset + i);
  int64_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = period[i % period.size()];
    if (std::abs(AsDouble(values[i]) - expected) > tolerance * std::abs(expected)) ++wrong;
  }
  return wrong;
}

template <class T>
void CheckAllReduce(ProcessGroup& group, ReduceOp op) {
  for (const int64_t numel : kNumels) {
    const Tensor tensor = Filled<T>(group.rank(), numel);
    group.AllReduce(tensor, op).Wait();
    EXPECT_EQ(CountWrong<T>(tensor, op, group.size()), 0)
        << Name(op) << " of " << numel << " " << Name(model::kDTypeOf<T>) << " on rank " << group.rank();
  }
}

TEST_P(ConformanceTest, AllReduceFloats) {
  OnAllRanks([](ProcessGroup& group) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
      CheckAllReduce<float>(group, op);
      CheckAllReduce<double>(group, op);
      CheckAllReduce<BF16>(group, op);
    }
  });
}

TEST_P(ConformanceTest, AllReduceIntegers) {
  OnAllRanks([](ProcessGroup& group) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      CheckAllReduce<int32_t>(group, op);
      CheckAllReduce<int64_t>(group, op);
      CheckAllReduce<uint8_t>(group, op);
    }
  });
}

TEST_P(ConformanceTest, BroadcastFromEveryRoot) {
  OnAllRanks([](ProcessGroup& group) {
    for (int root = 0; root < group.size(); ++root) {
      for (const int64_t numel : kNumels) {
        const Tensor tensor = Filled<float>(group.rank(), numel);
        group.Broadcast(tensor, root).Wait();
        EXPECT_EQ(tensor.ToVector<float>(), Filled<float>(root, numel).ToVector<float>()) << numel;
        const Tensor bytes = Filled<uint8_t>(group.rank(), numel);
        group.Broadcast(bytes, root).Wait();
        EXPECT_EQ(bytes.ToVector<uint8_t>(), Filled<uint8_t>(root, numel).ToVector<uint8_t>()) << numel;
      }
    }
  });
}

template <class T>
void CheckReduceScatter(ProcessGroup& group, ReduceOp op, bool in_place) {
  for (const int64_t numel : kNumels) {
    const int64_t offset = group.rank() * numel;
    const Tensor input = Filled<T>(group.rank(), group.size() * numel);
    const Tensor output =
        in_place ? input.Slice(offset, {numel}) : Tensor::Zeros(Here(), {numel}, input.dtype());
    group.ReduceScatter(input, output, op).Wait();
    EXPECT_EQ(CountWrong<T>(output, op, group.size(), offset), 0) << Name(op) << " of " << numel;
    if (!in_place) {
      EXPECT_EQ(input.ToVector<float>(),
                Filled<T>(group.rank(), group.size() * numel).template ToVector<float>())
          << "input changed";
    }
  }
}

TEST_P(ConformanceTest, ReduceScatter) {
  OnAllRanks([](ProcessGroup& group) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
      CheckReduceScatter<float>(group, op, false);
    }
  });
}

TEST_P(ConformanceTest, ReduceScatterInPlace) {
  OnAllRanks([](ProcessGroup& group) {
    CheckReduceScatter<float>(group, ReduceOp::kSum, true);
    CheckReduceScatter<double>(group, ReduceOp::kMean, true);
    CheckReduceScatter<int32_t>(group, ReduceOp::kMax, true);
  });
}

template <class T>
void CheckAllGather(ProcessGroup& group, bool in_place) {
  for (const int64_t numel : kNumels) {
    const Tensor output = Tensor::Zeros(Here(), {group.size(), numel}, model::kDTypeOf<T>);
    const Tensor mine = Filled<T>(group.rank(), numel);
    const Tensor input = in_place ? output.Slice(group.rank() * numel, {numel}) : mine;
    if (in_place) input.CopyFrom(mine);
    group.AllGather(input, output).Wait();
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ(output.Slice(rank * numel, {numel}).ToVector<T>(),
                Filled<T>(rank, numel).template ToVector<T>())
          << numel << " from rank " << rank;
    }
  }
}

TEST_P(ConformanceTest, AllGather) {
  OnAllRanks([](ProcessGroup& group) {
    CheckAllGather<float>(group, false);
    CheckAllGather<uint8_t>(group, false);
    CheckAllGather<int64_t>(group, true);
    CheckAllGather<float>(group, true);
  });
}

// Some tensors have fewer elements than there are ranks.
TEST_P(ConformanceTest, TensorsOfTheGroupsMemory) {
  OnAllRanks([](ProcessGroup& group) {
    const int size = group.size();
    const int rank = group.rank();
    for (const int64_t numel : {int64_t{1}, int64_t{size - 1}, int64_t{1023}, int64_t{300'000}}) {
      const auto allocate = [&](int64_t n) { return group.Allocate(Here(), {n}, DType::kF32); };
      const Tensor tensor = allocate(numel);
      tensor.CopyFrom(Filled<float>(rank, numel));
      group.AllReduce(tensor, ReduceOp::kSum).Wait();
      EXPECT_EQ(CountWrong<float>(tensor, ReduceOp::kSum, size), 0) << numel;

      tensor.CopyFrom(Filled<float>(rank, numel));
      group.Broadcast(tensor, size - 1).Wait();
      EXPECT_EQ(tensor.ToVector<float>(), Filled<float>(size - 1, numel).ToVector<float>()) << numel;

      const Tensor whole = allocate(size * numel);
      whole.CopyFrom(Filled<float>(rank, size * numel));
      group.ReduceScatter(whole, tensor, ReduceOp::kSum).Wait();
      EXPECT_EQ(CountWrong<float>(tensor, ReduceOp::kSum, size, rank * numel), 0) << numel;

      group.AllGather(tensor, whole).Wait();
      EXPECT_EQ(CountWrong<float>(whole, ReduceOp::kSum, size), 0) << numel;
    }
  });
}

TEST_P(ConformanceTest, ManyInFlightWaitedInAnyOrder) {
  OnAllRanks([](ProcessGroup& group) {
    struct InFlight {
      Tensor tensor;
      Work work;
    };
    std::vector<InFlight> collectives;
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t numel = 1 + i * i * (i % 16 == 15 ? 100 : 3);
      const Tensor tensor = Filled<float>(group.rank(), numel);
      collectives.push_back({tensor, i % 3 == 2 ? group.Broadcast(tensor, static_cast<int>(i) % group.size())
                                                : group.AllReduce(tensor, ReduceOp::kSum)});
    }
    std::vector<int64_t> order(collectives.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    // Another order on every rank.
    std::ranges::shuffle(order, std::mt19937(static_cast<uint32_t>(group.rank())));
    for (const int64_t i : order) {
      InFlight& collective = collectives[static_cast<size_t>(i)];
      collective.work.Wait();
      const int root = static_cast<int>(i) % group.size();
      if (i % 3 == 2) {
        EXPECT_EQ(collective.tensor.ToVector<float>(),
                  Filled<float>(root, collective.tensor.numel()).ToVector<float>());
      } else {
        EXPECT_EQ(CountWrong<float>(collective.tensor, ReduceOp::kSum, group.size()), 0);
      }
    }
  });
}

// On the caller's thread or on another, with others in flight or none, short and long.
TEST_P(ConformanceTest, WaitingAtOnceChangesNothing) {
  OnAllRanks([](ProcessGroup& group) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int64_t i = 0; i < 40; ++i) {
      tensors.push_back(Filled<float>(group.rank(), i % 5 == 4 ? 70'001 : 3 * i + 1));
      if (i % 4 == 1) works.push_back(group.AllReduce(tensors.back(), ReduceOp::kSum));
      if (i % 4 != 1) group.AllReduce(tensors.back(), ReduceOp::kSum, Waits::kAtOnce).Wait();
      if (i % 8 == 3)
        group.Broadcast(tensors.back(), static_cast<int>(i) % group.size(), Waits::kAtOnce).Wait();
    }
    for (Work& work : works) work.Wait();
    for (const Tensor& tensor : tensors)
      EXPECT_EQ(CountWrong<float>(tensor, ReduceOp::kSum, group.size()), 0);
  });
}

// What nobody waits for, or not yet, is done by and by.
TEST_P(ConformanceTest, WhoAsksOftenEnoughHearsThatItIsDone) {
  OnAllRanks([](ProcessGroup& group) {
    for (const Waits waits : {Waits::kLater, Waits::kAtOnce}) {
      for (const int64_t numel : {1, 20'000, 300'000}) {
        const Tensor tensor = Filled<float>(group.rank(), numel);
        const Work work = group.AllReduce(tensor, ReduceOp::kSum, waits);
        while (!work.Done()) std::this_thread::yield();
        EXPECT_EQ(CountWrong<float>(tensor, ReduceOp::kSum, group.size()), 0);
      }
    }
  });
}

TEST_P(ConformanceTest, WorkOutlivesItsHandleAndKeepsItsTensor) {
  OnAllRanks([](ProcessGroup& group) {
    const Tensor kept = Filled<float>(group.rank(), 200'000);
    group.AllReduce(kept, ReduceOp::kSum);                                 // handle dropped
    group.AllReduce(Filled<float>(group.rank(), 70'000), ReduceOp::kSum);  // tensor dropped
    group.Barrier();
    EXPECT_EQ(CountWrong<float>(kept, ReduceOp::kSum, group.size()), 0);
    EXPECT_TRUE(kept.unique()) << "a finished collective still holds its tensor";
  });
}

TEST_P(ConformanceTest, IntervalsLieBetweenIssueAndWait) {
  OnAllRanks([](ProcessGroup& group) {
    const int64_t issue_ns = Now();
    Work work = group.AllReduce(Filled<float>(group.rank(), 5000), ReduceOp::kSum);
    work.Wait();
    Here()->Synchronize();
    const int64_t done_ns = Now();
    const Interval interval = work.interval();
    // The clock of a GPU is brought to the host's, which cannot be exact.
    const int64_t slack_ns = Here()->is_cpu() ? 0 : 1'000'000;
    EXPECT_LE(issue_ns, interval.start_ns + slack_ns);
    EXPECT_LE(interval.start_ns, interval.end_ns);
    EXPECT_LE(interval.end_ns, done_ns + slack_ns);
  });
  Work done;
  done.Wait();
  EXPECT_EQ(done.interval().end_ns, 0);
}

TEST_P(ConformanceTest, BarrierWaitsForEveryRank) {
  OnAllRanks([&](ProcessGroup& group) {
    for (int round = 1; round <= 5; ++round) {
      // Each in turn comes long after the others. Threads and processes of a host have one clock.
      const int late = round % group.size();
      if (late == group.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const Tensor arrived_ns = Tensor::From<int64_t>(Here(), {1}, {{Now()}});
      group.Barrier();
      const int64_t left_ns = Now();
      group.Broadcast(arrived_ns, late).Wait();
      EXPECT_GE(left_ns, arrived_ns.ToVector<int64_t>().front());
    }
  });
}

// What each rank writes before a collective all see after it.
TEST_P(ConformanceTest, SharedMemoryIsOneForAllOrNone) {
  OnAllRanks([](ProcessGroup& group) {
    constexpr int64_t kNumel = 1001;
    const Tensor shared = group.AllocateShared(Here(), {group.size() * kNumel}, DType::kI32);
    const std::vector<int32_t> one = {shared.defined() ? 1 : 0};
    const Tensor num_defined = Tensor::From<int32_t>(Here(), {1}, one);
    group.AllReduce(num_defined, ReduceOp::kSum).Wait();
    EXPECT_EQ(num_defined.ToVector<int32_t>().front(), one.front() * group.size());
    if (!shared.defined()) return;
    for (int round = 0; round < 5; ++round) {
      const auto value = [&](int rank) { return 10 * round + rank; };
      const std::vector<int32_t> own(kNumel, value(group.rank()));
      shared.Slice(group.rank() * kNumel, {kNumel}).CopyFrom(Tensor::From<int32_t>(Here(), {kNumel}, own));
      group.Barrier();
      for (int rank = 0; rank < group.size(); ++rank) {
        const std::vector<int32_t> theirs = shared.Slice(rank * kNumel, {kNumel}).ToVector<int32_t>();
        EXPECT_EQ(std::ranges::count(theirs, value(rank)), kNumel);
      }
      group.Barrier();
    }
  });
}

TEST_P(ConformanceTest, KnowsItsWorld) {
  OnAllRanks([&](ProcessGroup& group) {
    EXPECT_EQ(group.size(), size());
    EXPECT_GE(group.rank(), 0);
    EXPECT_LT(group.rank(), size());
    EXPECT_EQ(group.backend(), GetParam().backend);
    EXPECT_GE(group.facts().channels, 1);
  });
}

TEST_P(ConformanceTest, RejectsBadArgumentsAndGoesOn) {
  OnAllRanks([](ProcessGroup& group) {
    const Tensor f32 = Tensor::Zeros(Here(), {6}, DType::kF32);
    const Tensor f64 = Tensor::Zeros(Here(), {6}, DType::kF64);
    const Tensor i32 = Tensor::Zeros(Here(), {6}, DType::kI32);
    const Tensor whole = Tensor::Zeros(Here(), {6 * group.size() + 1}, DType::kF32);
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.AllReduce(Tensor(), ReduceOp::kSum); }),
              "all_reduce: tensor is undefined");
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.AllReduce(i32, ReduceOp::kMean); }),
              "all_reduce: mean of i32, expected f32, f64 or bf16");
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.Broadcast(f32, group.size()); }),
              Join("broadcast: root is ", group.size(), ", expected a rank below ", group.size()));
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.Broadcast(f32, -1); }),
              Join("broadcast: root is -1, expected a rank below ", group.size()));
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.ReduceScatter(whole, f32, ReduceOp::kSum); }),
              Join("reduce_scatter: input has ", whole.numel(), " elements, expected ", 6 * group.size(),
                   ": the 6 of output for each of ", group.size(), " ranks"));
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { group.AllGather(f32, whole); }),
              Join("all_gather: output has ", whole.numel(), " elements, expected ", 6 * group.size(),
                   ": the 6 of input for each of ", group.size(), " ranks"));
    EXPECT_EQ(ErrorOf<InvalidInput>(
                  [&] { group.AllGather(f32, Tensor::Zeros(Here(), {6 * group.size()}, DType::kF64)); }),
              "all_gather: output is f64 but input is f32");
    EXPECT_EQ(ErrorOf<InvalidInput>([&] {
                group.ReduceScatter(Tensor::Zeros(Here(), {6 * group.size()}, DType::kI64),
                                    Tensor::Zeros(Here(), {6}, DType::kI64), ReduceOp::kMean);
              }),
              "reduce_scatter: mean of i64, expected f32, f64 or bf16");
    // Nothing of this was sent.
    CheckAllReduce<float>(group, ReduceOp::kSum);
  });
}

}  // namespace
}  // namespace gradsync::comm
