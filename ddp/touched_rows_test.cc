#include "ddp/buckets/touched_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/buckets/bucket.h"
#include "ddp/factory.h"
#include "model/functions.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;
using ::testing::ElementsAre;

Tensor Ids(const std::vector<int32_t>& ids, const model::DevicePtr& device = model::CpuDevice()) {
  return Tensor::From<int32_t>(device, {std::ssize(ids)}, std::span(ids));
}

Parameter MakeParameter(const std::string& name, model::Shape shape, DType dtype = DType::kF32,
                        const model::DevicePtr& device = model::CpuDevice()) {
  return Parameter(name, Tensor::Zeros(device, std::move(shape), dtype));
}

// Runs body(group) for each rank of a world of threads.
void ForEachRank(int world_size, const std::function<void(comm::ProcessGroup&)>& body,
                 const std::string& backend = "local") {
  auto groups = comm::MakeGroups(backend, world_size);
  comm::RunRanks(world_size, [&](int rank) { body(*groups[static_cast<size_t>(rank)]); });
}

// Adds random numbers to these rows, as an operation in backward does.
template <class T>
void AddToRows(const std::vector<int32_t>& ids, std::minstd_rand& random, Parameter& param) {
  const int64_t row_numel = param.numel() / param.shape().front();
  for (const int32_t id : ids) {
    for (int64_t i = 0; i < row_numel; ++i) {
      param.grad().data<T>()[id * row_numel + i] += std::uniform_real_distribution<T>(-1, 1)(random);
    }
  }
  param.MarkGrad(Ids(ids));
}

class TouchedRowsTest : public testing::TestWithParam<int> {};  // world size

INSTANTIATE_TEST_SUITE_P(Worlds, TouchedRowsTest, testing::Range(1, 9));

// Rows that several ranks have, or one several times, and from the second step on others each time.
template <class T>
void CheckAgainstAnAllReduce(int world_size, const std::string& backend) {
  ForEachRank(
      world_size,
      [&](comm::ProcessGroup& group) {
        std::minstd_rand random(static_cast<unsigned>(1 + group.rank()));
        Parameter param = MakeParameter("table", {1000, 3}, model::kDTypeOf<T>);
        param.grad().Zero();
        param.MarkGrad(Ids({1, 2, 3, 3, 3, 3, 3, 3, 3, 3}));
        Parameter* const params[] = {&param};
        std::vector<TouchedRows> agreed = TouchedRows::Agree(params, group);
        ASSERT_EQ(agreed.size(), 1u);
        TouchedRows& rows = agreed.front();
        Fill(param.grad(), 7);  // what another step left
        for (int step = 0; step < 6; ++step) {
          rows.Begin();
          EXPECT_TRUE(param.has_grad());
          std::vector<int32_t> ids = {500, 999, 0, 500};
          for (int i = 0; i < 6; ++i) ids.push_back(static_cast<int32_t>(random() % 20));
          if (step == 3) ids.clear();
          AddToRows<T>(ids, random, param);
          const Tensor whole = param.grad().Clone();
          group.AllReduce(whole, comm::ReduceOp::kSum).Wait();
          rows.Send().Wait();
          rows.Finish();
          ASSERT_EQ(param.grad().template ToVector<T>(), whole.ToVector<T>()) << "step " << step;
        }
      },
      backend);
}

TEST_P(TouchedRowsTest, SumsWhatAnAllReduceSums) {
  for (const char* backend : {"local", "shm"}) {
    CheckAgainstAnAllReduce<float>(GetParam(), backend);
    CheckAgainstAnAllReduce<double>(GetParam(), backend);
  }
}

TEST(TouchedRowsGlooTest, SumsWhatAnAllReduceSums) { CheckAgainstAnAllReduce<float>(3, "gloo"); }

// On one rank alone, which the others learn from its message.
TEST_P(TouchedRowsTest, WhatIsMoreThanAgreedIsSentWhole) {
  const int world_size = GetParam();
  ForEachRank(world_size, [&](comm::ProcessGroup& group) {
    Parameter param = MakeParameter("table", {100});
    param.grad().Zero();
    param.MarkGrad(Ids({1, 2}));
    Parameter* const params[] = {&param};
    std::vector<TouchedRows> agreed = TouchedRows::Agree(params, group);
    ASSERT_EQ(agreed.size(), 1u);
    const bool is_last = group.rank() == world_size - 1;
    for (int step = 0; step < 5; ++step) {
      agreed.front().Begin();
      std::vector<int32_t> ids = {10 * step, 10 * step + 1};
      if (is_last && step == 1) ids.push_back(55);
      for (const int32_t id : ids) param.grad().data<float>()[id] += 1;
      param.MarkGrad(Ids(ids));
      if (is_last && step == 3) {
        param.grad().data<float>()[77] += 1;  // Another operation's, which does not say where.
        param.MarkGrad();
      }
      agreed.front().Send().Wait();
      agreed.front().Finish();
      std::vector<float> expected(100);
      const size_t row = size_t{10} * static_cast<size_t>(step);
      expected[row] = expected[row + 1] = static_cast<float>(world_size);
      if (step == 1) expected[55] = 1;
      if (step == 3) expected[77] = 1;
      ASSERT_EQ(param.grad().ToVector<float>(), expected) << "step " << step;
    }
  });
}

TEST(TouchedRowsAgreeTest, RowsMustTakeLessThanTheGradient) {
  ForEachRank(2, [](comm::ProcessGroup& group) {
    // Two ranks, each with so many rows of 4 bytes and as many ids: 384, 400 and 4 x 80 bytes.
    Parameter fewer = MakeParameter("fewer", {100}), as_many = MakeParameter("as_many", {100}),
              silent = MakeParameter("silent", {100}), unused = MakeParameter("unused", {100}),
              more_on_rank_1 = MakeParameter("more_on_rank_1", {100}), wide = MakeParameter("wide", {30, 10});
    fewer.MarkGrad(Ids(std::vector<int32_t>(24, 5)));  // all of one row
    as_many.MarkGrad(Ids(std::vector<int32_t>(25, 5)));
    silent.MarkGrad();
    unused.MarkZeroGrad();
    more_on_rank_1.MarkGrad(Ids(std::vector<int32_t>(group.rank() == 0 ? 10 : 90, 5)));
    wide.MarkGrad(Ids({1, 2, 3}));
    wide.MarkGrad(Ids({4}));
    Parameter* const params[] = {&silent, &wide, &as_many, &fewer, &unused, &more_on_rank_1};
    std::vector<std::string> names;
    for (const TouchedRows& rows : TouchedRows::Agree(params, group)) {
      names.push_back(rows.param()->name());
      // A cache line with the number and four ids, and three lines with 160 bytes of rows.
      if (rows.param() == &wide) {
        EXPECT_EQ(rows.bytes(), 2u * 4 * 64);
      }
    }
    EXPECT_THAT(names, ElementsAre("wide", "fewer", "more_on_rank_1"));
  });
}

// Gradients of a language model that has only an embedding and an output layer, which may be one matrix.
struct Gradients {
  std::vector<std::vector<float>> values;
  bool by_rows = false;
};

Gradients Train(const std::string& strategy_name, const std::map<std::string, double, std::less<>>& values,
                bool tied, comm::ProcessGroup& group) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter table = MakeParameter("table", {300, 8}, DType::kF32, device),
            head = MakeParameter("head", {300, 8}, DType::kF32, device);
  FillTruncatedNormal(table.MutableValue(), 1.0, /*seed=*/1, /*stream=*/0);
  FillTruncatedNormal(head.MutableValue(), 1.0, /*seed=*/1, /*stream=*/1);
  std::vector<Parameter*> params = {&table, &head};
  const auto strategy =
      MakeStrategy(strategy_name, {.params = params, .group = group, .options = {.values = values}});
  for (int step = 0; step < 3; ++step) {
    for (Parameter* param : params) param->ResetGrad();
    strategy->BeginStep();
    const int first = 7 * step + group.rank();
    const Tensor ids = Ids({first, 5, 5, 299}, device), targets = Ids({1, 2, 3, first}, device);
    const model::Var logits = Linear(Embedding(ids, table), tied ? table : head);
    const model::Var loss = model::Scale(CrossEntropy(logits, targets), strategy->loss_scale());
    model::Backward(loss, params, [&](Parameter& param) { strategy->OnGradReady(param); });
    strategy->Finish();
  }
  Gradients grads;
  for (Parameter* param : params) grads.values.push_back(param->grad().ToVector<float>());
  for (const Bucket& bucket : strategy->plan().buckets) {
    if (bucket.sent_bytes() == bucket.bytes()) continue;
    EXPECT_THAT(bucket.params, ElementsAre(&table));
    grads.by_rows = true;
  }
  return grads;
}

TEST(EmbeddingTest, IsSentByRowsUnlessItIsTiedToTheOutput) {
  for (const bool tied : {false, true}) {
    std::vector<Gradients> core(2), naive(2);
    ForEachRank(2, [&](comm::ProcessGroup& group) {
      const auto rank = static_cast<size_t>(group.rank());
      core[rank] = Train("core", {{"rows", 1}}, tied, group);
      naive[rank] = Train("naive", {}, tied, group);
    });
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(core[rank].by_rows, !tied);
      EXPECT_FALSE(naive[rank].by_rows);
      // To the last bit: halves are not rounded.
      EXPECT_EQ(core[rank].values, naive[0].values);
    }
  }
}

}  // namespace
}  // namespace gradsync::ddp
