#include "model/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "model/base/test_errors.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"
#include "model/test_muon.h"

namespace gradsync::model {
namespace {

// Large enough for several threads, and no multiple of a vector.
constexpr int64_t kNumel = 20'011;
constexpr int kSteps = 5;

// The update of one element, written down from the definition, with its own state.
using Update = std::function<double(double value, double grad)>;

template <class T>
class OptimizerTest : public testing::Test {
 protected:
  void SetUp() override {
    FillTruncatedNormal(a_.MutableValue(), 1.0, 0, 0);
    FillTruncatedNormal(b_.MutableValue(), 1.0, 0, 1);
  }

  // Gradients of very different sizes; some are zero throughout.
  void MakeGradients(uint64_t step) {
    for (size_t i = 0; i < params_.size(); ++i) {
      FillTruncatedNormal(params_[i]->grad(), i == 0 ? 1.0 : 1e-6, step, 10 + i);
      T* grad = params_[i]->grad().template data<T>();
      grad[1] = 0;
      params_[i]->MarkGrad();
    }
  }

  // Takes kSteps steps, and compares every element with what `make_update`() computes for it.
  void ExpectFollows(Optimizer& optimizer, const std::function<Update()>& make_update) {
    std::vector<std::vector<double>> expected;
    std::vector<std::vector<Update>> updates;
    for (Parameter* p : params_) {
      const std::vector<T> values = p->value().template ToVector<T>();
      expected.emplace_back(values.begin(), values.end());
      std::vector<Update>& of_p = updates.emplace_back();
      for (size_t k = 0; k < values.size(); ++k) of_p.push_back(make_update());
    }
    for (int step = 0; step < kSteps; ++step) {
      MakeGradients(100 + static_cast<uint64_t>(step));
      optimizer.Step();
      for (size_t i = 0; i < params_.size(); ++i) {
        const std::vector<T> grad = params_[i]->grad().template ToVector<T>();
        for (size_t k = 0; k < grad.size(); ++k) expected[i][k] = updates[i][k](expected[i][k], grad[k]);
      }
    }
    // Each step rounds a handful of times, relative to a value of at most 3 and a change of at most 0.1.
    const double tolerance = kSteps * 4 * std::numeric_limits<T>::epsilon();
    for (size_t i = 0; i < params_.size(); ++i) {
      const std::vector<T> actual = params_[i]->value().template ToVector<T>();
      for (size_t k = 0; k < actual.size(); ++k) {
        ASSERT_NEAR(actual[k], expected[i][k], tolerance * (0.3 + std::abs(expected[i][k])))
            << params_[i]->name() << "[" << k << "]";
      }
    }
  }

  DevicePtr device_ = CpuDevice(2);
  Parameter a_{"a", Tensor::Empty(device_, {kNumel}, kDTypeOf<T>)};
  Parameter b_{"b", Tensor::Empty(device_, {3, 1}, kDTypeOf<T>)};
  std::vector<Parameter*> params_{&a_, &b_};
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(OptimizerTest, Types);

Update PlainSgd() {
  return [](double value, double grad) { return value - 0.1 * grad; };
}

Update PlainAdamW() {
  return [mean = 0.0, square = 0.0, step = 0](double value, double grad) mutable {
    ++step;
    mean = 0.9 * mean + 0.1 * grad;
    square = 0.99 * square + 0.01 * grad * grad;
    value -= 0.02 * 0.1 * value;
    const double unbiased_mean = mean / (1 - std::pow(0.9, step));
    const double unbiased_square = square / (1 - std::pow(0.99, step));
    return value - 0.02 * unbiased_mean / (std::sqrt(unbiased_square) + 1e-8);
  };
}

constexpr AdamW::Options kAdamW{
    .learning_rate = 0.02, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};

TYPED_TEST(OptimizerTest, SgdFollowsItsDefinition) {
  Sgd optimizer(this->params_, {.learning_rate = 0.1});
  this->ExpectFollows(optimizer, PlainSgd);
}

TYPED_TEST(OptimizerTest, AdamWFollowsItsDefinition) {
  AdamW optimizer(this->params_, kAdamW);
  this->ExpectFollows(optimizer, PlainAdamW);
  optimizer.Reset();
  this->ExpectFollows(optimizer, PlainAdamW);
}

// Cut anywhere, in as many calls as one likes, with gradients in other places: bit for bit what a whole step
// makes.
TYPED_TEST(OptimizerTest, PartsAreBitwiseTheWhole) {
  const auto check = [&](Optimizer& whole) {
    this->SetUp();
    for (Parameter* p : this->params_) p->PlaceGrad({});
    std::vector<std::vector<TypeParam>> expected, initial;
    for (Parameter* p : this->params_) initial.push_back(p->value().template ToVector<TypeParam>());
    for (uint64_t step = 0; step < 3; ++step) {
      this->MakeGradients(step);
      whole.SetLearningRate(0.1 / static_cast<double>(step + 1));
      whole.Step(0.3);
    }
    for (Parameter* p : this->params_) expected.push_back(p->value().template ToVector<TypeParam>());
    for (size_t i = 0; i < 2; ++i)
      this->params_[i]->MutableValue().CopyFrom(Tensor::From<TypeParam>(
          this->device_, this->params_[i]->shape(), std::span<const TypeParam>(initial[i])));
    const Tensor elsewhere = Tensor::Empty(this->device_, {kNumel - 4099}, kDTypeOf<TypeParam>);
    const std::unique_ptr<Optimizer> front = whole.ForParts({{&this->b_, 0, 3}, {&this->a_, 0, 17}});
    const std::unique_ptr<Optimizer> back =
        whole.ForParts({{&this->a_, 4099, kNumel, elsewhere}, {&this->a_, 17, 4099}});
    for (uint64_t step = 0; step < 3; ++step) {
      this->MakeGradients(step);
      elsewhere.CopyFrom(this->a_.grad().Slice(4099, {kNumel - 4099}));
      Fill(this->a_.grad().Slice(4099, {kNumel - 4099}), 1e9);
      for (Optimizer* optimizer : {front.get(), back.get()}) {
        optimizer->SetLearningRate(0.1 / static_cast<double>(step + 1));
        optimizer->Advance();
        optimizer->Apply(std::vector<Parameter*>{&this->b_}, 0.3);
        optimizer->Apply(std::vector<Parameter*>{&this->a_}, 0.3);
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(this->params_[i]->value().template ToVector<TypeParam>(), expected[i]);
    }
  };
  Sgd sgd(this->params_, {.learning_rate = 0.1});
  AdamW adamw(this->params_, kAdamW);
  AdamW grouped(this->params_, {.weight_decay = 0.5, .decay_vectors = false});
  for (Optimizer* optimizer :
       {static_cast<Optimizer*>(&sgd), static_cast<Optimizer*>(&adamw), static_cast<Optimizer*>(&grouped)}) {
    check(*optimizer);
  }
}

// A scale is a product of the gradient, in the same pass.
TYPED_TEST(OptimizerTest, AScaleOfAPowerOfTwoIsThatOfTheGradient) {
  const auto values_after = [&](double grad_factor, double grad_scale) {
    this->SetUp();
    AdamW adamw(this->params_, kAdamW);
    for (uint64_t step = 0; step < 3; ++step) {
      this->MakeGradients(step);
      for (Parameter* p : this->params_) Scale(p->grad(), grad_factor);
      adamw.Step(grad_scale);
    }
    return this->a_.value().template ToVector<TypeParam>();
  };
  const std::vector<TypeParam> expected = values_after(0.25, 1), found = values_after(1, 0.25);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 8 * std::numeric_limits<TypeParam>::epsilon() * 3);
  }
  EXPECT_NE(values_after(1, 1), expected);
}

// torch.optim.AdamW with two groups, {a} with weight_decay=0.1 and {b} with 0: a is (20011), b is (3, 1).
TYPED_TEST(OptimizerTest, WeightDecayCanSpareVectors) {
  AdamW::Options options = kAdamW;
  options.decay_vectors = false;
  const auto values_after = [&](const AdamW::Options& used, Parameter& p) {
    this->SetUp();
    this->MakeGradients(0);
    AdamW(this->params_, used).Step();
    return p.value().template ToVector<TypeParam>();
  };
  AdamW::Options without = kAdamW;
  without.weight_decay = 0;
  EXPECT_EQ(values_after(options, this->a_), values_after(without, this->a_));
  EXPECT_EQ(values_after(options, this->b_), values_after(kAdamW, this->b_));
  EXPECT_NE(values_after(kAdamW, this->a_), values_after(without, this->a_));
}

TYPED_TEST(OptimizerTest, StateIsNamedSavedAndLoaded) {
  AdamW first(this->params_, kAdamW), second(this->params_, kAdamW);
  this->MakeGradients(0);
  first.Step();
  const std::vector<NamedTensor> saved = first.State(), loaded = second.State();
  ASSERT_EQ(saved.size(), 4u);
  EXPECT_EQ(saved[0].first, "exp_avg.a");
  EXPECT_EQ(saved[3].first, "exp_avg_sq.b");
  for (size_t i = 0; i < saved.size(); ++i) loaded[i].second.CopyFrom(saved[i].second);
  second.SetNumSteps(first.num_steps());
  const std::vector<TypeParam> before = this->a_.value().template ToVector<TypeParam>();
  first.Step();
  const std::vector<TypeParam> expected = this->a_.value().template ToVector<TypeParam>();
  this->a_.MutableValue().CopyFrom(
      Tensor::From<TypeParam>(this->device_, {kNumel}, std::span<const TypeParam>(before)));
  second.Step();
  EXPECT_EQ(this->a_.value().template ToVector<TypeParam>(), expected);
  EXPECT_EQ(first.ForParts({{&this->a_, 2, 7}})->State()[0].first, "exp_avg.a[2:7]");
  EXPECT_EQ(Sgd(this->params_, {}).State().size(), 0u);
}

// Whoever has state of its own does not pay for another.
TYPED_TEST(OptimizerTest, StateIsAllocatedByItsFirstUser) {
  const size_t before = this->device_->allocator().stats().bytes_in_use;
  const AdamW adamw(this->params_, kAdamW);
  EXPECT_EQ(this->device_->allocator().stats().bytes_in_use, before);
  const std::unique_ptr<Optimizer> part = adamw.ForParts({{&this->a_, 0, 1000}});
  part->State();
  const size_t bytes = this->device_->allocator().stats().bytes_in_use - before;
  EXPECT_GE(bytes, 2 * 1000 * sizeof(TypeParam));
  EXPECT_LT(bytes, 2 * 2000 * sizeof(TypeParam));
}

TYPED_TEST(OptimizerTest, PartsOutsideOfTheirParameterAreRefused) {
  const AdamW adamw(this->params_, kAdamW);
  EXPECT_THROW(adamw.ForParts({{&this->b_, 1, 4}}), InvalidInput);
  EXPECT_THROW(adamw.ForParts({{&this->b_, 2, 1}}), InvalidInput);
  EXPECT_THROW(adamw.ForParts({{&this->b_, -1, 1}}), InvalidInput);
  EXPECT_THROW(adamw.ForParts({{&this->b_, 0, 3, Tensor::Zeros(this->device_, {2}, kDTypeOf<TypeParam>)}}),
               InvalidInput);
}

TYPED_TEST(OptimizerTest, StepsAllocateNothing) {
  Sgd sgd(this->params_, {});
  AdamW adamw(this->params_, kAdamW);
  this->MakeGradients(0);
  sgd.State();
  adamw.State();
  CachingAllocator& allocator = this->device_->allocator();
  const size_t before = allocator.stats().peak_bytes_in_use;
  ASSERT_EQ(allocator.stats().bytes_in_use, before);
  for (int step = 0; step < 3; ++step) {
    sgd.Step();
    adamw.Step();
  }
  EXPECT_EQ(allocator.stats().peak_bytes_in_use, before);
}

TYPED_TEST(OptimizerTest, MissingGradientStopsTheWholeStep) {
  AdamW adamw(this->params_, kAdamW);
  Sgd sgd(this->params_, {});
  this->MakeGradients(0);
  this->b_.ResetGrad();
  const std::vector<TypeParam> before = this->a_.value().template ToVector<TypeParam>();
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&adamw), static_cast<Optimizer*>(&sgd)}) {
    EXPECT_THAT(ErrorOf([&] { optimizer->Step(); }), testing::HasSubstr("parameter 'b' has no gradient"));
  }
  EXPECT_EQ(this->a_.value().template ToVector<TypeParam>(), before);
}

using Matrix = ReferenceMatrix;

class MuonTest : public testing::TestWithParam<Shape> {
 protected:
  static constexpr double kRate = 0.05, kDecay = 0.1, kScale = 0.3;

  // Square ones have rank 2, with singular values far apart.
  static Matrix GradientOf(const Shape& shape, uint64_t step) {
    const auto normal = [&](int64_t rows, int64_t columns, uint64_t stream) {
      const Tensor t = Tensor::Empty(CpuDevice(), {rows, columns}, DType::kF64);
      FillTruncatedNormal(t, 1.0, step, stream);
      return Matrix(Eigen::Map<const Matrix>(t.data<double>(), rows, columns));
    };
    const bool is_deficient = shape[0] == shape[1];
    if (!is_deficient) return normal(shape[0], shape[1], 1);
    return normal(shape[0], 1, 2) * normal(1, shape[1], 3) +
           1e-2 * normal(shape[0], 1, 4) * normal(1, shape[1], 5);
  }

  // The largest difference to the definition, relative to an update's size, of three steps.
  template <class T>
  static double Error(bool in_bf16) {
    const Shape& shape = GetParam();
    Parameter p("p", Tensor::Zeros(CpuDevice(2), shape, kDTypeOf<T>));
    FillTruncatedNormal(p.MutableValue(), 1.0, 0, 0);
    const std::vector<Parameter*> list{&p};
    Muon muon(list, {.adamw = {.learning_rate = kRate, .weight_decay = kDecay}, .in_bf16 = in_bf16});
    MuonReference reference{.rate = kRate, .decay = kDecay};
    double largest = 0;
    for (uint64_t step = 0; step < 3; ++step) {
      const Eigen::Matrix<T, -1, -1, Eigen::RowMajor> grad = GradientOf(shape, step).cast<T>();
      p.grad().CopyFrom(
          Tensor::From<T>(p.device(), shape, std::span(grad.data(), grad.data() + grad.size())));
      p.MarkGrad();
      const auto value = [&] {
        const std::vector<T> values = p.value().ToVector<T>();
        return Matrix(
            Eigen::Map<const Eigen::Matrix<T, -1, -1, Eigen::RowMajor>>(values.data(), shape[0], shape[1])
                .template cast<double>());
      };
      const Matrix before = value();
      muon.Step(kScale);
      const Matrix expected = reference.Next(before, kScale * grad.template cast<double>());
      const double rank = static_cast<double>(std::min(shape[0], shape[1]));
      largest = std::max(largest, (value() - expected).norm() / (reference.SizeOf(before) * std::sqrt(rank)));
    }
    return largest;
  }
};

// Where the gradient has no direction there is nothing but rounding to enlarge, by at most 3.4445^5 = 485.
TEST_P(MuonTest, FollowsItsDefinition) {
  EXPECT_LE(Error<double>(false), 485 * 8 * 0x1p-52);
  EXPECT_LE(Error<float>(false), 485 * 8 * 0x1p-23);
  // bf16 rounds by 2^-9, which the iteration enlarges by 485 if the matrix has no full rank: then all
  // directions are in the update. Else singular values change by some per cent.
  if (GetParam()[0] == GetParam()[1]) return;
  EXPECT_LE(Error<float>(true), 0.05);
  EXPECT_GT(Error<float>(true), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MuonTest,
                         testing::Values(Shape{24, 40}, Shape{200, 16}, Shape{16, 200}, Shape{32, 32},
                                         Shape{1, 7}, Shape{7, 1}),
                         [](const auto& shape) { return Join(shape.param[0], "x", shape.param[1]); });

TEST(Muon, LeavesTablesAndVectorsToAdamWAndTakesNoPartOfAMatrix) {
  const DevicePtr device = CpuDevice();
  const auto make = [&](const char* name, Shape shape) {
    auto p = std::make_unique<Parameter>(name, Tensor::Zeros(device, std::move(shape), DType::kF32));
    FillTruncatedNormal(p->MutableValue(), 1.0, 0, 0);
    FillTruncatedNormal(p->grad(), 1.0, 1, 0);
    p->MarkGrad();
    return p;
  };
  const auto values_after = [&](bool muon, std::vector<std::string>* states) {
    const auto matrix = make("matrix", {6, 8}), table = make("table", {6, 8}), vector = make("vector", {8});
    table->SetTable();
    const std::vector<Parameter*> list{matrix.get(), table.get(), vector.get()};
    const AdamW::Options options{.learning_rate = 0.1};
    std::unique_ptr<Optimizer> optimizer = std::make_unique<AdamW>(list, options);
    if (muon) optimizer = std::make_unique<Muon>(list, Muon::Options{.adamw = options});
    optimizer->Step();
    for (const NamedTensor& state : optimizer->State()) states->push_back(state.first);
    std::vector<std::vector<float>> all;
    for (const Parameter* p : list) all.push_back(p->value().ToVector<float>());
    return all;
  };
  std::vector<std::string> states, ignored;
  const auto found = values_after(true, &states), elementwise = values_after(false, &ignored);
  EXPECT_NE(found[0], elementwise[0]);
  EXPECT_EQ(found[1], elementwise[1]);
  EXPECT_EQ(found[2], elementwise[2]);
  EXPECT_EQ(states, (std::vector<std::string>{"exp_avg.matrix", "exp_avg.table", "exp_avg.vector",
                                              "exp_avg_sq.table", "exp_avg_sq.vector"}));
  const auto matrix = make("matrix", {6, 8}), table = make("table", {6, 8});
  table->SetTable();
  const std::vector<Parameter*> list{matrix.get()};
  Muon muon(list, {});
  EXPECT_EQ(muon.ForParts({{table.get(), 1, 5}, {matrix.get(), 0, 48}})->State().size(), 3u);
  EXPECT_EQ(ErrorOf([&] {
              muon.ForParts({{matrix.get(), 0, 24}});
            }),
            "Muon: found elements 0 to 24 of the matrix 'matrix', expected the whole matrix");
  EXPECT_THROW(Muon(list, {.momentum = 1}), InvalidInput);
  // As often as one likes, from the same start.
  const std::vector<float> start = matrix->value().ToVector<float>();
  muon.Step();
  const std::vector<float> first = matrix->value().ToVector<float>();
  muon.Reset();
  matrix->MutableValue().CopyFrom(Tensor::From<float>(device, {6, 8}, std::span<const float>(start)));
  muon.Step();
  EXPECT_EQ(matrix->value().ToVector<float>(), first);
  // A zero gradient has no direction.
  muon.Reset();
  matrix->grad().Zero();
  muon.Step();
  for (const float value : matrix->value().ToVector<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(Optimizer, WritesTheCopyOfAValueWithIt) {
  const DevicePtr device = CpuDevice(2);
  const auto check = [&](const auto& make) {
    Parameter p("p", Tensor::Empty(device, {kNumel / 17, 17}, DType::kF32), Parameter::Copy::kBF16);
    FillTruncatedNormal(p.MutableValue(), 1.0, 0, 0);
    FillTruncatedNormal(p.grad(), 1.0, 0, 1);
    p.MarkGrad();
    std::vector<Parameter*> list{&p};
    make(list)->Step();
    const std::vector<BF16> copy = p.BeginUpdate().copy.ToVector<BF16>();
    const std::vector<float> values = p.value().ToVector<float>();
    for (size_t i = 0; i < copy.size(); ++i) ASSERT_EQ(copy[i].bits, BF16(values[i]).bits) << i;
  };
  using Params = std::span<Parameter* const>;
  check([](Params params) { return std::make_unique<Sgd>(params, Sgd::Options{.learning_rate = 0.1}); });
  check([](Params params) { return std::make_unique<AdamW>(params, kAdamW); });
  check([](Params params) { return std::make_unique<Muon>(params, Muon::Options{.in_bf16 = true}); });
}

// On every thread: those of OpenMP begin as the thread that starts them.
TEST(Optimizer, MomentsThatWouldBecomeDenormalBecomeZero) {
  std::thread([] {
    FlushDenormals();
    const DevicePtr device = CpuDevice(3);
    Parameter p("p", Tensor::Zeros(device, {kNumel}, DType::kF32));
    p.grad().Zero();
    p.MarkGrad();
    std::vector<Parameter*> list{&p};
    AdamW adamw(list, kAdamW);
    constexpr float kSmallest = std::numeric_limits<float>::min();
    for (const auto& [name, moment] : adamw.State()) Fill(moment, kSmallest);
    adamw.Step();
    for (const auto& [name, moment] : adamw.State()) {
      EXPECT_EQ(moment.ToVector<float>(), std::vector<float>(kNumel, 0)) << name;
    }
    // Nor is a denormal operand read.
    const std::vector<float> denormal(kNumel, kSmallest / 2);
    const Tensor x = Tensor::From<float>(device, {kNumel}, std::span<const float>(denormal));
    Scale(x, 4);
    EXPECT_EQ(x.ToVector<float>(), std::vector<float>(kNumel, 0));
  }).join();
}

TEST(Optimizer, RefusesWhatCannotWork) {
  Parameter p("p", Tensor::Zeros(CpuDevice(), {2}, DType::kF32));
  Parameter ints("ints", Tensor::Zeros(CpuDevice(), {2}, DType::kI32));
  std::vector<Parameter*> good{&p}, bad{&ints};
  EXPECT_THROW(Sgd(bad, {}), InvalidInput);
  EXPECT_THROW(AdamW(bad, {}), InvalidInput);
  const double nan = std::nan("");
  EXPECT_THROW(Sgd(good, {.learning_rate = -1}), InvalidInput);
  EXPECT_THROW(Sgd(good, {.learning_rate = nan}), InvalidInput);
  EXPECT_THROW(AdamW(good, {.learning_rate = -1}), InvalidInput);
  EXPECT_THROW(AdamW(good, {.beta1 = 1}), InvalidInput);
  EXPECT_THROW(AdamW(good, {.beta2 = -0.1}), InvalidInput);
  EXPECT_THROW(AdamW(good, {.eps = 0}), InvalidInput);
  EXPECT_THROW(AdamW(good, {.weight_decay = nan}), InvalidInput);
}

TEST(OptimizerParametersTest, AFrozenOneIsLeftAlone) {
  const DevicePtr device = CpuDevice();
  Parameter frozen("frozen", Tensor::Zeros(device, {1}, DType::kF32));
  Parameter other("other", Tensor::Zeros(device, {1}, DType::kF32));
  std::vector<Parameter*> params{&frozen, &other};
  frozen.Freeze();
  AdamW adamw(params, {});
  Sgd sgd(params, {});
  for (Optimizer* optimizer : {static_cast<Optimizer*>(&adamw), static_cast<Optimizer*>(&sgd)}) {
    other.grad().data<float>()[0] = 1;
    other.MarkGrad();
    optimizer->Step();
  }
  EXPECT_EQ(frozen.value().data<float>()[0], 0);
  EXPECT_LT(other.value().data<float>()[0], 0);
}

}  // namespace
}  // namespace gradsync::model
