#include "ddp/sharding/owned_matrices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gradsync::ddp {
namespace {

using model::Parameter;
using model::Shape;

constexpr size_t kBucketBytes = size_t{25} << 20;

struct Params {
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> order;  // reverse forward

  void Add(const Shape& shape, bool is_table = false) {
    const model::Tensor value = model::Tensor::Empty(model::CpuDevice(), shape, model::DType::kF32);
    owned.push_back(std::make_unique<Parameter>("p" + std::to_string(owned.size()), value));
    if (is_table) owned.back()->SetTable();
    order.push_back(owned.back().get());
  }
  size_t PlaceOf(const Parameter* p) const {
    return static_cast<size_t>(std::ranges::find(order, p) - order.begin());
  }
};

// As model::Transformer has them.
Params TransformerParams(int64_t num_layers, int64_t d, int64_t d_ff, int64_t vocab) {
  Params params;
  params.Add({vocab, d}, /*is_table=*/true);
  params.Add({d});
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    for (const Shape& shape : {Shape{d_ff, d}, Shape{d, d_ff}, Shape{d_ff, d}, Shape{d}, Shape{d, d},
                               Shape{d, d}, Shape{d, d}, Shape{d, d}, Shape{d}})
      params.Add(shape);
  }
  params.Add({vocab, d}, /*is_table=*/true);
  return params;
}

// The owner of each matrix, from where it lies; fails if no part has it whole.
void CheckOwners(const Params& params, const OwnedPlan& owned, int num_parts, std::vector<double>* work) {
  std::set<const Parameter*> seen;
  work->assign(static_cast<size_t>(num_parts), 0);
  size_t last_ready = 0;
  for (const Bucket& bucket : owned.plan.buckets) {
    std::set<std::pair<int64_t, int64_t>> places;
    size_t ready = 0;
    for (size_t i = 0; i < bucket.params.size(); ++i) {
      const Parameter* const p = bucket.params[i];
      EXPECT_TRUE(seen.insert(p).second);
      places.emplace(bucket.offsets[i], bucket.offsets[i] + p->numel());
      ready = std::max(ready, params.PlaceOf(p));
      if (p->shape().size() != 2 || p->is_table()) continue;
      ASSERT_EQ(bucket.numel % num_parts, 0);
      const int64_t part = bucket.numel / num_parts, rank = bucket.offsets[i] / part;
      EXPECT_LE(bucket.offsets[i] + p->numel(), (rank + 1) * part) << "divided";
      EXPECT_EQ(bucket.offsets[i] % 16, 0) << "not on a cache line";
      const auto rows = static_cast<double>(p->shape()[0]), columns = static_cast<double>(p->shape()[1]);
      const double side = std::min(rows, columns), length = std::max(rows, columns);
      // x x^T and b x are products of side * side * length, a a is one of side^3.
      (*work)[static_cast<size_t>(rank)] += 2 * side * side * length + side * side * side;
    }
    int64_t end = 0;
    for (const auto& [from, to] : places) {
      EXPECT_GE(from, end) << "overlap";
      end = to;
    }
    EXPECT_LE(end, bucket.numel);
    EXPECT_GE(ready, last_ready) << "a bucket that is ready earlier comes later";
    last_ready = ready;
  }
  EXPECT_EQ(seen.size(), params.order.size());
}

TEST(OwnedMatricesTest, RanksShareTheWorkOfTransformers) {
  struct Case {
    int64_t num_layers, d, d_ff;
    std::vector<int> worlds;  // whose ranks can have equal work
  };
  // As tiny, as small, and one with few matrices, of which eight ranks cannot have equal work.
  for (const Case& at : {Case{4, 256, 1024, {1, 2, 3, 4, 5, 8}}, Case{12, 768, 3072, {1, 2, 3, 4, 5, 8, 16}},
                         Case{2, 64, 192, {1, 2, 3, 4}}}) {
    for (const int num_parts : at.worlds) {
      const Params params = TransformerParams(at.num_layers, at.d, at.d_ff, 1000);
      const OwnedPlan owned = PlanOwned(params.order, num_parts, kBucketBytes);
      std::vector<double> work;
      CheckOwners(params, owned, num_parts, &work);
      double sum = 0;
      for (const double w : work) sum += w;
      const double largest = std::ranges::max(work) * num_parts / sum;
      EXPECT_NEAR(owned.largest_work, largest, 1e-12);
      EXPECT_LE(largest, 1.1) << at.d << ", " << num_parts << " ranks";
      int64_t numel = 0;
      for (const Parameter* p : params.order) numel += p->numel();
      EXPECT_LE(static_cast<double>(owned.plan.numel()), 1.13 * static_cast<double>(numel))
          << at.d << ", " << num_parts << " ranks";
    }
  }
}

// The parts of one bucket are equally long, but the square matrix takes 2.7 times the work of the other one.
TEST(OwnedMatricesTest, RanksTakeTurnsAtTheLargerWork) {
  Params params;
  for (int i = 0; i < 4; ++i) {
    params.Add({64, 64});
    params.Add({32, 128});
  }
  const OwnedPlan owned = PlanOwned(params.order, 2, 2 * 64 * 64 * sizeof(float));
  EXPECT_EQ(owned.plan.buckets.size(), 4u);
  std::vector<double> work;
  CheckOwners(params, owned, 2, &work);
  EXPECT_EQ(work[0], work[1]);
  EXPECT_EQ(owned.largest_work, 1);
}

// Limits of any size: a bucket has one matrix at least.
TEST(OwnedMatricesTest, AnyLimitAndAnyWorldIsTaken) {
  const Params params = TransformerParams(2, 10, 30, 100);  // no matrix fills its last cache line
  for (const size_t bytes : {size_t{1}, size_t{5000}, kBucketBytes}) {
    for (const int num_parts : {1, 2, 3, 7, 40}) {
      std::vector<double> work;
      CheckOwners(params, PlanOwned(params.order, num_parts, bytes), num_parts, &work);
    }
  }
  const Params aligned = TransformerParams(2, 16, 48, 100);
  const OwnedPlan limited = PlanOwned(aligned.order, 1, 5000);
  for (const Bucket& bucket : limited.plan.buckets)
    EXPECT_TRUE(bucket.bytes() <= 5000 || bucket.params.size() == 1) << bucket.bytes();
}

TEST(OwnedMatricesTest, WithoutMatricesThereIsNothingToOwn) {
  Params params;
  params.Add({100});
  params.Add({10, 3}, /*is_table=*/true);
  const OwnedPlan owned = PlanOwned(params.order, 4, kBucketBytes);
  EXPECT_EQ(owned.largest_work, 1);
  EXPECT_EQ(owned.plan.buckets.size(), 1u);
}

}  // namespace
}  // namespace gradsync::ddp
