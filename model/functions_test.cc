#include "model/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/function_cases.h"
#include "model/function_suite.h"
#include "model/gradient_check.h"
#include "model/tensor/random.h"

namespace gradsync::model {
namespace {

INSTANTIATE_TEST_SUITE_P(Small, FunctionTest, testing::ValuesIn(SmallFunctionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Small, FunctionThreadsTest, testing::ValuesIn(SmallFunctionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Large, FunctionTest, testing::ValuesIn(LargeFunctionCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Large, FunctionThreadsTest, testing::ValuesIn(LargeFunctionCases()), CaseName);

INSTANTIATE_TEST_SUITE_P(Small, FunctionGradientTest, testing::ValuesIn(SmallFunctionCases()), CaseName);

// Inputs that are one and the same variable.
TEST(FunctionsTest, TheSameVariableTwice) {
  const DevicePtr device = CpuDevice();
  const Tensor x = Tensor::Empty(device, {2, 3, 4}, DType::kF64);
  FillTruncatedNormal(x, 1.0, /*seed=*/1, /*stream=*/0);
  const Tensor square = Tensor::Empty(device, {4, 4}, DType::kF64);
  FillTruncatedNormal(square, 1.0, /*seed=*/1, /*stream=*/1);
  const auto check = [](const Tensor& input, const std::function<Var(const Var&)>& fn) {
    return CheckGradients([fn](const std::vector<Var>& v) { return fn(v[0]); }, {input});
  };
  EXPECT_TRUE(check(square, [](const Var& v) { return Linear(v, v); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return CausalAttention(v, v, v, 2); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return CausalAttention(v, v, Scale(v, 2), 2); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return CausalAttention(v, Scale(v, 2), v, 2); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return CausalAttention(Scale(v, 2), v, v, 2); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return SwiGlu(v, v); }));
  EXPECT_TRUE(check(x, [](const Var& v) { return SwiGlu(Scale(v, 2), SwiGlu(v, v)); }));
}

TEST(FunctionsTest, AttentionSeesNothingThatComesLater) {
  const DevicePtr device = CpuDevice();
  const int64_t seq = 130, d_model = 6;
  std::vector<Tensor> inputs;
  for (uint64_t i = 0; i < 3; ++i) {
    inputs.push_back(Tensor::Empty(device, {1, seq, d_model}, DType::kF32));
    FillTruncatedNormal(inputs.back(), 1.0, /*seed=*/2, /*stream=*/i);
  }
  const auto attend = [&] {
    return CausalAttention(Var(inputs[0]), Var(inputs[1]), Var(inputs[2]), 2).value().ToVector<float>();
  };
  const std::vector<float> before = attend();
  for (const int64_t changed : {1, 63, 64, 65, 129}) {
    std::vector<float> kept;
    for (const Tensor& input : inputs)
      kept.push_back(std::exchange(input.data<float>()[changed * d_model], 5.0f));
    const std::vector<float> after = attend();
    for (size_t i = 0; i < kept.size(); ++i) inputs[i].data<float>()[changed * d_model] = kept[i];
    const auto start = static_cast<std::ptrdiff_t>(changed * d_model);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + start, after.begin())) << changed;
    EXPECT_NE(std::vector<float>(before.begin() + start, before.begin() + start + d_model),
              std::vector<float>(after.begin() + start, after.begin() + start + d_model))
        << changed;
  }
}

TEST(FunctionsTest, RopeIsTheSameAfterOtherLengths) {
  ExpectRopeIsTheSameAfterOtherLengths([] { return CpuDevice(); });
}

TEST(FunctionsTest, CrossEntropyIsOfDifferences) { ExpectCrossEntropyIsOfDifferences(CpuDevice()); }

TEST(FunctionsTest, LargeNumbersDoNotOverflow) { ExpectLargeNumbersDoNotOverflow(CpuDevice()); }

// The ids of rows that a gradient may have.
std::vector<int32_t> TouchedRows(const Parameter& param) {
  std::vector<int32_t> rows;
  for (const Tensor& ids : *param.touched_rows()) {
    for (const int32_t id : ids.ToVector<int32_t>()) rows.push_back(id);
  }
  return rows;
}

TEST(FunctionsTest, AnEmbeddingTellsWhichRowsItsGradientHas) {
  const DevicePtr device = CpuDevice();
  const auto ids = [&](std::vector<int32_t> v) {
    return Tensor::From<int32_t>(device, {static_cast<int64_t>(v.size())}, std::span<const int32_t>(v));
  };
  const auto filled = [&](Shape shape) {
    Tensor tensor = Tensor::Empty(device, std::move(shape), DType::kF32);
    FillTruncatedNormal(tensor, 1.0, /*seed=*/3, /*stream=*/0);
    return tensor;
  };
  Parameter table("table", filled({5, 2})), other("other", filled({5, 2}));
  std::vector<Parameter*> list{&table, &other};
  EXPECT_EQ(TouchedRows(table), std::vector<int32_t>{});

  Backward(Project({Embedding(ids({4, 1, 4}), table)}, filled({3, 2})), list);
  EXPECT_EQ(TouchedRows(table), (std::vector<int32_t>{4, 1, 4}));
  EXPECT_EQ(TouchedRows(other), std::vector<int32_t>{});  // not reached, so zero
  // Another one is added.
  Backward(Project({Embedding(ids({2}), table)}, filled({1, 2})), list);
  EXPECT_EQ(TouchedRows(table), (std::vector<int32_t>{4, 1, 4, 2}));
  table.ResetGrad();
  EXPECT_EQ(TouchedRows(table), std::vector<int32_t>{});

  // They are those of the backward pass, even if the next batch is there already.
  const Tensor batch = ids({3, 0, 0});
  Backward(Project({Embedding(batch, table)}, filled({3, 2})), list);
  batch.CopyFrom(ids({1, 1, 1}));
  EXPECT_EQ(TouchedRows(table), (std::vector<int32_t>{3, 0, 0}));
  table.ResetGrad();

  // A weight that is tied to the output layer, on either side of the embedding.
  Backward(Project({Linear(Embedding(ids({3}), table), table)}, filled({1, 5})), list);
  EXPECT_EQ(table.touched_rows(), nullptr);
  // Other rows have a gradient now: what is added later does not change that.
  Backward(Project({Embedding(ids({2}), table)}, filled({1, 2})), list);
  EXPECT_EQ(table.touched_rows(), nullptr);
}

// A batch that is filled again between forward and backward.
TEST(FunctionsTest, IdsAndTargetsThatWereChangedAreAnError) {
  const DevicePtr device = CpuDevice();
  const auto ids = [&](std::vector<int32_t> v) {
    return Tensor::From<int32_t>(device, {static_cast<int64_t>(v.size())}, std::span<const int32_t>(v));
  };
  const Tensor batch = ids({0, 2}), next = ids({1, 2});
  Parameter table("table", Tensor::Zeros(device, {3, 3}, DType::kF32));
  std::vector<Parameter*> list{&table};
  const auto error_after = [&](const std::function<void()>& write, const std::function<Var()>& forward) {
    batch.CopyFrom(ids({0, 2}));
    table.ResetGrad();
    const Var loss = forward();
    write();
    return ErrorOf<std::exception>([&] { Backward(loss, list); });
  };
  const std::function<Var()> embed = [&] { return CrossEntropy(Embedding(batch, table), ids({0, 0})); };
  const std::function<Var()> classify = [&] { return CrossEntropy(Embedding(ids({0, 0}), table), batch); };
  const char kEmbed[] =
      "Backward: ids were changed after operation 'embedding' had read them, and before its gradients were "
      "computed";
  const char kClassify[] =
      "Backward: targets were changed after operation 'cross_entropy' had read them, and before its "
      "gradients "
      "were computed";
  const auto fill = [&] { batch.CopyFrom(next); };
  EXPECT_EQ(error_after(fill, embed), kEmbed);
  EXPECT_EQ(error_after(fill, classify), kClassify);
  // Through a pointer, too: another row, rows swapped, and what is none.
  const auto set = [&](int32_t first, int32_t second) {
    return [&batch, first, second] {
      batch.data<int32_t>()[0] = first;
      batch.data<int32_t>()[1] = second;
    };
  };
  EXPECT_EQ(error_after(set(1, 2), embed), kEmbed);
  EXPECT_EQ(error_after(set(2, 0), classify), kClassify);
  EXPECT_EQ(error_after(set(1 << 30, 2), embed),
            "embedding: ids[0] is 1073741824, expected 0 to 2 for a vocabulary of 3");
  EXPECT_EQ(error_after(set(0, -1), classify),
            "cross_entropy: targets[1] is -1, expected 0 to 2 for a vocabulary of 3");
  EXPECT_EQ(error_after(set(0, 2), embed), "no error");  // the same
  EXPECT_EQ(error_after([] {}, classify), "no error");
}

TEST(FunctionsTest, AnEmbeddingAddsToAGradientOfZeros) {
  const DevicePtr device = CpuDevice();
  Parameter table("table", Tensor::Zeros(device, {3, 1}, DType::kF32));
  std::vector<Parameter*> list{&table};
  const std::vector<int32_t> ids{2, 2};
  const std::vector<float> dy{5, 7};
  table.grad().Zero();
  table.grad().data<float>()[0] = 1;  // Nobody zeroes it again.
  table.MarkZeroGrad();
  Backward(Project({Embedding(Tensor::From<int32_t>(device, {2}, std::span(ids)), table)},
                   Tensor::From<float>(device, {2, 1}, std::span(dy))),
           list);
  EXPECT_EQ(table.grad().ToVector<float>(), (std::vector<float>{1, 0, 12}));
  EXPECT_EQ(TouchedRows(table), ids);
  table.MarkGrad();
  EXPECT_EQ(table.touched_rows(), nullptr);
}

TEST(FunctionsTest, AWeightIsReadyBeforeTheInputsGradientIsComputed) {
  const DevicePtr device = CpuDevice();
  const auto make = [&](const char* name, Shape shape) {
    return Parameter(name, Tensor::Zeros(device, std::move(shape), DType::kF32));
  };
  Parameter x = make("x", {2, 3}), weight = make("weight", {4, 3}), norm = make("norm", {3});
  std::vector<Parameter*> list{&x, &weight, &norm};
  const Tensor dy = Tensor::Zeros(device, {2, 4}, DType::kF32);
  std::vector<std::string> order;
  Backward(Project({Linear(RmsNorm(x, norm, 1e-5), weight)}, dy), list,
           [&](Parameter& param) { order.push_back(param.name()); });
  EXPECT_EQ(order, (std::vector<std::string>{"weight", "norm", "x"}));
}

TEST(FunctionsTest, RefusesWhatCannotWork) {
  using testing::AllOf;
  using testing::HasSubstr;
  const DevicePtr device = CpuDevice();
  const auto f32 = [&](Shape shape) { return Var(Tensor::Zeros(device, std::move(shape), DType::kF32)); };
  const auto of = [](Shape shape, DType dtype, const DevicePtr& on) {
    return Tensor::Zeros(on, std::move(shape), dtype);
  };
  const auto ids = [&](std::vector<int32_t> values) {
    return Tensor::From<int32_t>(device, {static_cast<int64_t>(values.size())},
                                 std::span<const int32_t>(values));
  };

  EXPECT_THAT(ErrorOf([&] {
                Linear(f32({2, 3}), f32({4, 5}));
              }),
              AllOf(HasSubstr("linear"), HasSubstr("(2, 3)"), HasSubstr("(4, 5)")));
  EXPECT_THAT(ErrorOf([&] { Linear(f32({}), f32({4, 5})); }), HasSubstr("x is () f32"));
  EXPECT_THAT(ErrorOf([&] { Linear(f32({2, 3}), f32({3})); }), HasSubstr("weight is (3)"));
  EXPECT_THAT(ErrorOf([&] {
                Linear(f32({2, 3}), Var(of({4, 3}, DType::kF64, device)));
              }),
              AllOf(HasSubstr("f32"), HasSubstr("f64")));
  EXPECT_THAT(ErrorOf([&] {
                Linear(f32({2, 3}), Var(of({4, 3}, DType::kF32, CpuDevice())));
              }),
              HasSubstr("one dtype and device"));
  EXPECT_THAT(ErrorOf([&] { Linear(Var(), f32({4, 5})); }), HasSubstr("x is undefined"));
  EXPECT_THAT(ErrorOf([&] {
                Linear(Var(of({2, 3}, DType::kI32, device)), Var(of({4, 3}, DType::kI32, device)));
              }),
              HasSubstr("linear: dtype is i32, expected f32, f64 or bf16"));

  EXPECT_THAT(ErrorOf([&] {
                Embedding(ids({0, 4, 5}), f32({5, 2}));
              }),
              HasSubstr("embedding: ids[2] is 5, expected 0 to 4 for a vocabulary of 5"));
  EXPECT_THAT(ErrorOf([&] { Embedding(ids({-1}), f32({5, 2})); }), HasSubstr("ids[0] is -1"));
  EXPECT_THAT(ErrorOf([&] {
                Embedding(of({1}, DType::kI64, device), f32({5, 2}));
              }),
              HasSubstr("ids is (1) i64"));
  EXPECT_THAT(ErrorOf([&] { Embedding(ids({0}), f32({5})); }), HasSubstr("weight is (5)"));

  EXPECT_THAT(ErrorOf([&] {
                RmsNorm(f32({2, 3}), f32({2}), 1e-5);
              }),
              AllOf(HasSubstr("rms_norm"), HasSubstr("(2, 3)"), HasSubstr("weight is (2)")));
  EXPECT_THAT(ErrorOf([&] { RmsNorm(f32({2, 0}), f32({0}), 1e-5); }), HasSubstr("d at least 1"));
  EXPECT_THAT(ErrorOf([&] { RmsNorm(f32({3}), f32({3}), -1); }), HasSubstr("eps is -1"));

  EXPECT_THAT(ErrorOf([&] { Rope(f32({2, 3}), 1, 10000); }), HasSubstr("(batch, seq, d_model)"));
  EXPECT_THAT(ErrorOf([&] { Rope(f32({1, 2, 6}), 4, 10000); }), HasSubstr("does not divide into 4 heads"));
  EXPECT_THAT(ErrorOf([&] { Rope(f32({1, 2, 6}), 0, 10000); }), HasSubstr("into 0 heads"));
  EXPECT_THAT(ErrorOf([&] { Rope(f32({1, 2, 6}), 2, 10000); }), HasSubstr("size 3, expected an even one"));
  EXPECT_THAT(ErrorOf([&] { Rope(f32({1, 2, 6}), 1, 0); }), HasSubstr("theta is 0"));

  const auto attend = [&](Shape q, Shape k, Shape v, int64_t heads) {
    return ErrorOf([&] { CausalAttention(f32(q), f32(k), f32(v), heads); });
  };
  EXPECT_THAT(attend({1, 2, 6}, {1, 3, 6}, {1, 2, 6}, 2),
              AllOf(HasSubstr("q is (1, 2, 6)"), HasSubstr("k is (1, 3, 6)")));
  EXPECT_THAT(attend({1, 2, 6}, {1, 2, 6}, {1, 2, 4}, 2),
              AllOf(HasSubstr("q is (1, 2, 6)"), HasSubstr("v is (1, 2, 4)")));
  EXPECT_THAT(attend({1, 2, 6}, {1, 2, 6}, {1, 2, 6}, 4), HasSubstr("does not divide into 4 heads"));
  EXPECT_THAT(attend({2, 6}, {2, 6}, {2, 6}, 1), HasSubstr("(batch, seq, d_model)"));

  EXPECT_THAT(ErrorOf([&] { SwiGlu(f32({2}), f32({3})); }),
              AllOf(HasSubstr("gate is (2)"), HasSubstr("up is (3)")));
  EXPECT_THAT(ErrorOf([&] { Scale(Var(ids({1})), 2); }), HasSubstr("scale: dtype is i32"));
  EXPECT_THAT(ErrorOf([&] { Scale(Var(), 2); }), HasSubstr("undefined"));

  EXPECT_THAT(ErrorOf([&] {
                CrossEntropy(f32({2, 3}), ids({0}));
              }),
              AllOf(HasSubstr("logits is (2, 3)"), HasSubstr("targets is (1)")));
  EXPECT_THAT(ErrorOf([&] {
                CrossEntropy(f32({2, 3}), ids({0, 3}));
              }),
              HasSubstr("targets[1] is 3, expected 0 to 2"));
  EXPECT_THAT(ErrorOf([&] { CrossEntropy(f32({0, 3}), ids({})); }), HasSubstr("no positions"));
  EXPECT_THAT(ErrorOf([&] {
                CrossEntropy(f32({1, 3}), of({1}, DType::kF32, device));
              }),
              HasSubstr("targets is (1) f32"));
}

}  // namespace
}  // namespace gradsync::model
