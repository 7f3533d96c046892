#include "ddp/buckets/bucket.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/buckets/overlapped_buckets.h"

namespace gradsync::ddp {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;

class BucketTest : public testing::Test {
 protected:
  void Add(int64_t numel, DType dtype = DType::kF32) {
    owned_.push_back(std::make_unique<Parameter>("p", Tensor::Zeros(device_, {numel}, dtype)));
    params_.push_back(owned_.back().get());
  }

  // The sizes of each bucket's parameters.
  static std::vector<std::vector<int64_t>> Numels(const BucketPlan& plan) {
    std::vector<std::vector<int64_t>> numels;
    for (const Bucket& bucket : plan.buckets) {
      numels.emplace_back();
      for (const Parameter* param : bucket.params) numels.back().push_back(param->numel());
    }
    return numels;
  }

  static BucketLimits Equal(size_t bytes) {
    return {.bytes = bytes, .first_bytes = bytes, .last_bytes = bytes};
  }

  using Lists = std::vector<std::vector<int64_t>>;
  model::DevicePtr device_ = model::CpuDevice();
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups_ = comm::MakeGroups("local", 1);
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> params_;
};

TEST_F(BucketTest, AParameterJoinsWhileTheSumStaysWithinTheLimit) {
  for (const int64_t numel : {3, 5, 2, 20, 1, 9, 1}) Add(numel);
  EXPECT_EQ(Numels(PlanBuckets(params_, Equal(40))), (Lists{{3, 5, 2}, {20}, {1, 9}, {1}}));
  EXPECT_EQ(Numels(PlanBuckets(params_, Equal(4))), (Lists{{3}, {5}, {2}, {20}, {1}, {9}, {1}}));
  EXPECT_EQ(Numels(PlanBuckets(params_, Equal(4000))), (Lists{{3, 5, 2, 20, 1, 9, 1}}));
  EXPECT_EQ(Numels(PlanReverse(params_, 40)), (Lists{{1}, {1, 9}, {20}, {3, 5, 2}}));
  EXPECT_EQ(PlanSingles(params_).buckets.size(), params_.size());
  EXPECT_EQ(PlanBuckets(params_, Equal(40)).numel(), 41);
}

TEST_F(BucketTest, WhatIsAloneGoesWhenItIsReady) {
  for (const int64_t numel : {1, 2, 3, 4, 5}) Add(numel);
  for (size_t alone = 0; alone < 5; ++alone) {
    std::vector<Parameter*> others = params_;
    std::erase(others, params_[alone]);
    BucketPlan plan = PlanBuckets(others, Equal(20));
    InsertAlone(params_[alone], /*messages_bytes=*/8, params_, plan);
    const Lists expected[] = {{{1}, {2, 3}, {4}, {5}},
                              {{2}, {1, 3}, {4}, {5}},
                              {{1, 2}, {3}, {4}, {5}},
                              {{1, 2}, {3}, {4}, {5}},
                              {{1, 2}, {3}, {4}, {5}}};
    EXPECT_EQ(Numels(plan), expected[alone]) << alone;
    for (const Bucket& bucket : plan.buckets) {
      const bool is_alone = bucket.params.front() == params_[alone];
      EXPECT_EQ(bucket.sent_bytes(), is_alone ? 8 : bucket.bytes());
    }
  }
  BucketPlan plan;
  InsertAlone(params_[0], 8, params_, plan);
  EXPECT_EQ(Numels(plan), (Lists{{1}}));
}

TEST_F(BucketTest, SmallFirstAndNoneLargerThanWhatFollows) {
  for (int i = 0; i < 24; ++i) Add(10);
  const BucketLimits limits{.bytes = 320, .first_bytes = 80, .last_bytes = 40};
  EXPECT_EQ(Numels(PlanBuckets(params_, limits)), (Lists{{10, 10},
                                                         {10, 10, 10, 10, 10, 10, 10, 10},
                                                         {10, 10, 10, 10, 10, 10, 10},
                                                         {10, 10, 10},
                                                         {10, 10},
                                                         {10},
                                                         {10}}));
  // A parameter above the limit stands alone, and what comes before it is followed by much.
  Add(1000);
  EXPECT_EQ(Numels(PlanBuckets(params_, limits)).back(), (std::vector<int64_t>{1000}));
  EXPECT_EQ(Numels(PlanBuckets(params_, limits)).size(), 5u);
}

TEST_F(BucketTest, ADTypeChangeStartsABucket) {
  Add(2);
  Add(2, DType::kF64);
  Add(2, DType::kF64);
  Add(2);
  EXPECT_EQ(Numels(PlanBuckets(params_, Equal(4000))), (Lists{{2}, {2, 2}, {2}}));
  EXPECT_EQ(PlanBuckets(params_, {.bytes = 4000, .first_bytes = 4000, .last_bytes = 3999}).buckets.size(),
            3u);
}

TEST_F(BucketTest, AlignmentIsKeptInEveryOrder) {
  for (const int64_t numel : {3, 17, 16, 1, 40}) Add(numel);
  const BucketLimits limits{.bytes = 300, .first_bytes = 70, .last_bytes = 70, .alignment_bytes = 64};
  const BucketPlan plan = PlanBuckets(params_, limits);
  const std::vector<Parameter*> reversed(params_.rbegin(), params_.rend());
  const BucketPlan other = PlanBuckets(reversed, limits);
  const Tensor storage = MakeStorage(plan, *groups_[0]);
  EXPECT_EQ(storage.nbytes(), MakeStorage(other, *groups_[0]).nbytes());
  for (const BucketPlan* p : {&plan, &other}) {
    const std::vector<Tensor> buffers = PlaceBuffers(*p, storage);
    for (size_t b = 0; b < buffers.size(); ++b) {
      for (size_t i = 0; i < p->buckets[b].params.size(); ++i) {
        const Tensor view = p->buckets[b].View(buffers[b], i);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.raw_data()) % 64, 0u);
        EXPECT_EQ(view.shape(), p->buckets[b].params[i]->value().shape());
      }
    }
  }
}

// What lies between gradients is sent too.
TEST_F(BucketTest, BuffersBeginWithZeros) {
  Add(1000);
  const BucketPlan plan = PlanBuckets(params_, Equal(4000));
  for (int i = 0; i < 2; ++i) {
    const Tensor buffer = MakeBuffers(plan, *groups_[0])[0];
    EXPECT_EQ(buffer.ToVector<float>(), std::vector<float>(1000));
    for (int64_t k = 0; k < 1000; ++k) buffer.data<float>()[k] = 7;
  }
}

TEST_F(BucketTest, CopiesInAndOut) {
  Add(3);
  Add(2);
  const BucketPlan plan = PlanBuckets(params_, Equal(4000));
  const Tensor buffer = MakeBuffers(plan, *groups_[0])[0];
  params_[0]->grad().CopyFrom(Tensor::From<float>(device_, {3}, std::vector<float>{1, 2, 3}));
  params_[1]->grad().CopyFrom(Tensor::From<float>(device_, {2}, std::vector<float>{4, 5}));
  CopyIn(plan.buckets[0], buffer);
  EXPECT_EQ(buffer.ToVector<float>(), (std::vector<float>{1, 2, 3, 4, 5}));
  buffer.data<float>()[4] = 50;
  CopyOut(plan.buckets[0], buffer);
  EXPECT_EQ(params_[1]->grad().ToVector<float>(), (std::vector<float>{4, 50}));
}

class SentBuckets : public OverlappedBuckets {
 public:
  SentBuckets(comm::ProcessGroup& group, BucketPlan plan) : OverlappedBuckets(group, std::move(plan)) {}
  using OverlappedBuckets::ReceiveThrough;

  std::vector<size_t> sent, received;

 private:
  comm::Work Send(size_t i) override {
    sent.push_back(i);
    return {};
  }
  void Receive(size_t i) override { received.push_back(i); }
};

TEST_F(BucketTest, SendsInPlanOrderWhateverTheReadyOrder) {
  for (int i = 0; i < 6; ++i) Add(1);
  const BucketPlan plan = PlanBuckets(params_, Equal(8));  // {0 1} {2 3} {4 5}
  SentBuckets strategy(*groups_[0], plan);
  for (int repeat = 0; repeat < 2; ++repeat) {
    strategy.BeginStep();
    strategy.sent.clear();
    strategy.received.clear();
    auto ready = [&](int i) { strategy.OnGradReady(*params_[static_cast<size_t>(i)]); };
    for (const int i : {2, 3, 0}) ready(i);
    EXPECT_TRUE(strategy.sent.empty());
    ready(1);
    EXPECT_EQ(strategy.sent, (std::vector<size_t>{0, 1}));
    ready(5);
    ready(4);
    EXPECT_EQ(strategy.sent, (std::vector<size_t>{0, 1, 2}));
    strategy.ReceiveThrough(1);
    EXPECT_EQ(strategy.received, (std::vector<size_t>{0, 1}));
    strategy.Finish();
    EXPECT_EQ(strategy.received, (std::vector<size_t>{0, 1, 2}));
  }
}

// There are 40 buckets, one of them much larger than the others. No four in a row share memory, and all
// together need no more memory than the largest four.
TEST_F(BucketTest, BucketsTakeTurnsInLessMemory) {
  for (int i = 0; i < 40; ++i) Add(i == 17 ? 1000 : 16 + 48 * (i % 3));
  const BucketPlan plan = PlanSingles(params_);
  const std::vector<Tensor> buffers = PlaceInTurns(plan, 4, *groups_[0]);
  ASSERT_EQ(buffers.size(), 40u);
  const auto address = [](const Tensor& buffer) { return static_cast<const std::byte*>(buffer.raw_data()); };
  const std::byte* begin = address(buffers[0]);
  const std::byte* end = begin;
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].numel(), plan.buckets[i].numel);
    begin = std::min(begin, address(buffers[i]));
    end = std::max(end, address(buffers[i]) + buffers[i].nbytes());
    for (size_t j = i - std::min<size_t>(i, 3); j < i; ++j) {
      EXPECT_TRUE(address(buffers[j]) + buffers[j].nbytes() <= address(buffers[i]) ||
                  address(buffers[i]) + buffers[i].nbytes() <= address(buffers[j]))
          << i << " " << j;
    }
  }
  EXPECT_LE(end - begin, 4096 + 3 * 448);
}

TEST_F(BucketTest, AZeroLimitIsRefused) {
  Add(1);
  EXPECT_THROW(PlanBuckets(params_, Equal(0)), InvalidInput);
}

TEST_F(BucketTest, SendsWhatTheFastestAlgorithmsSend) {
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kAllReduce, 100, 4), 150);
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kAllGather, 100, 4), 75);
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kReduceScatter, 100, 2), 50);
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kAllReduce, 100, 1), 0);
  // On two hosts of three ranks: two thirds within a host, and what an all-reduce of one third takes.
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kReduceScatter, 90, 6, 2), 60 + 30);
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kAllGather, 90, 6, 2), 60);
  EXPECT_DOUBLE_EQ(SentBytes(comm::Collective::kReduceScatter, 90, 6, 6), 150)
      << "one rank each: an all-reduce";
  for (int i = 0; i < 2; ++i) Add(25);
  BucketPlan plan = PlanBuckets(params_, Equal(100));
  plan.buckets[1].collective = comm::Collective::kAllGather;
  EXPECT_DOUBLE_EQ(plan.SentBytes(4), 150 + 75);
  plan.buckets[1].num_hosts = 2;
  EXPECT_DOUBLE_EQ(plan.SentBytes(4), 150 + 50);
}

}  // namespace
}  // namespace gradsync::ddp
