#include "ddp/buckets/touched_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "comm/testing/rank_threads.h"
#include "ddp/buckets/bucket.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;
using ::testing::ElementsAre;

Tensor Ids(const std::vector<int32_t>& ids) {
  return Tensor::From<int32_t>(model::CpuDevice(), {std::ssize(ids)}, std::span(ids));
}

Parameter MakeParameter(const std::string& name, model::Shape shape, DType dtype = DType::kF32) {
  return Parameter(name, Tensor::Zeros(model::CpuDevice(), std::move(shape), dtype));
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

}  // namespace
}  // namespace gradsync::ddp
