#include "model/autograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/base/test_errors.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

// Records what runs and what becomes ready, in order.
struct Log {
  std::vector<std::string> events;
};

class AutogradTest : public testing::Test {
 protected:
  Tensor Of(std::vector<double> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    return Tensor::From<double>(device_, shape, std::span<const double>(values));
  }

  // a[i] * b[i]; contributes to its inputs in the given order.
  Var Mul(const Var& a, const Var& b, std::vector<int> order = {0, 1}) {
    const Tensor x = a.value(), y = b.value();
    return Var::FromOp("mul", Product(x, y), {a, b}, [this, x, y, order](OpGradient& op) {
      for (const int i : order) {
        op.Contribute(i, [&](const Destination<Tensor>& grad) {
          log_.events.push_back("mul" + std::to_string(i));
          Store(Product(op.output_grad(), i == 0 ? y : x), grad);
        });
      }
    });
  }

  Var Add(const Var& a, const Var& b) {
    Tensor sum = a.value().Clone();
    AddTo(b.value(), sum);
    return Var::FromOp("add", sum, {a, b}, [](OpGradient& op) {
      op.PassThrough(0);
      op.PassThrough(1);
    });
  }

  Tensor Product(const Tensor& x, const Tensor& y) {
    std::vector<double> a = x.ToVector<double>();
    const std::vector<double> b = y.ToVector<double>();
    for (size_t i = 0; i < a.size(); ++i) a[i] *= b[i];
    return Tensor::From<double>(device_, x.shape(), std::span<const double>(a));
  }

  GradHook Hook() {
    return [this](Parameter& p) { log_.events.push_back("ready " + p.name()); };
  }

  static double Grad(Parameter& p) { return p.grad().ToVector<double>().at(0); }

  DevicePtr device_ = CpuDevice();
  Parameter a_{"a", Of({3})};
  Parameter b_{"b", Of({5})};
  Parameter c_{"c", Of({7})};
  std::vector<Parameter*> params_{&a_, &b_, &c_};
  Log log_;
};

TEST_F(AutogradTest, SumsOverAllPaths) {
  // (a*b + a) * a = a^2 b + a^2: d/da = 2ab + 2a, d/db = a^2.
  Backward(Mul(Add(Mul(a_, b_), a_), a_), params_);
  EXPECT_EQ(Grad(a_), 2 * 3 * 5 + 2 * 3);
  EXPECT_EQ(Grad(b_), 9);
  EXPECT_EQ(Grad(c_), 0);
}

TEST_F(AutogradTest, SharedGradientIsNotChangedByALaterContribution) {
  // x + x*b, where the gradient of the sum is shared by both branches.
  const Var x = Mul(a_, c_);
  Backward(Add(x, Mul(x, b_)), params_);
  EXPECT_EQ(Grad(b_), 21);
  EXPECT_EQ(Grad(a_), 7 + 7 * 5);
  EXPECT_EQ(Grad(c_), 3 + 3 * 5);
}

TEST_F(AutogradTest, SameVarTwice) {
  const Var x = Mul(a_, b_);
  Backward(Add(x, x), params_);
  EXPECT_EQ(Grad(a_), 10);
  const Var y = Mul(a_, b_);
  for (Parameter* p : params_) p->ResetGrad();
  Backward(Mul(y, y), params_);
  EXPECT_EQ(Grad(a_), 2 * 15 * 5);
}

TEST_F(AutogradTest, ReadyRightAfterTheLastContributionAndOnce) {
  Backward(Mul(Mul(a_, b_), a_), params_, Hook());
  // The outer product contributes to its intermediate input, then to a; the inner one completes a, then b.
  EXPECT_EQ(log_.events,
            (std::vector<std::string>{"mul0", "mul1", "mul0", "ready a", "mul1", "ready b", "ready c"}));
}

TEST_F(AutogradTest, ReadinessDoesNotDependOnArgumentOrder) {
  Backward(Mul(Mul(b_, a_), a_), params_, Hook());
  EXPECT_EQ(log_.events,
            (std::vector<std::string>{"mul0", "mul1", "mul0", "ready b", "mul1", "ready a", "ready c"}));
  log_.events.clear();
  for (Parameter* p : params_) p->ResetGrad();
  // An operation that serves its parameter first makes it ready before it computes the other gradient.
  Backward(Mul(Mul(b_, b_), a_, {1, 0}), params_, Hook());
  EXPECT_EQ(log_.events,
            (std::vector<std::string>{"mul1", "ready a", "mul0", "mul0", "mul1", "ready b", "ready c"}));
}

TEST_F(AutogradTest, OverwritesAfterResetAndAccumulatesOtherwise) {
  a_.grad().CopyFrom(Of({1e9}));  // stale
  Backward(Mul(a_, b_), params_);
  EXPECT_EQ(Grad(a_), 5);
  Backward(Mul(a_, b_), params_);
  EXPECT_EQ(Grad(a_), 10);
  for (Parameter* p : params_) p->ResetGrad();
  Backward(Mul(a_, b_), params_);
  EXPECT_EQ(Grad(a_), 5);
}

TEST_F(AutogradTest, WritesIntoPlacedStorage) {
  const Tensor bucket = Of({-1, -1, -1});
  for (int i = 0; i < 3; ++i) params_[static_cast<size_t>(i)]->PlaceGrad(bucket.Slice(i, {1}));
  Backward(Mul(a_, b_), params_);
  EXPECT_EQ(bucket.ToVector<double>(), (std::vector<double>{5, 3, 0}));
  EXPECT_THROW(a_.PlaceGrad(bucket), InvalidInput);
}

TEST_F(AutogradTest, ConstantsGetNoGradient) {
  const Var constant(Of({2}));
  EXPECT_FALSE(Mul(constant, constant).requires_grad());
  Backward(Mul(constant, a_), params_, Hook());
  EXPECT_EQ(log_.events.front(), "mul1");
  EXPECT_EQ(Grad(a_), 2);
}

TEST_F(AutogradTest, FreesWhatOperationsKeptAsItGoes) {
  Var y = Mul(a_, b_);
  const size_t before = device_->allocator().stats().bytes_in_use;
  for (int i = 0; i < 100; ++i) y = Mul(y, b_);
  const Var loss = y;
  y = Var();
  Backward(loss, params_);
  // Only the loss itself and the three gradients are left.
  EXPECT_LE(device_->allocator().stats().bytes_in_use, before + 4 * 64);
}

TEST_F(AutogradTest, DeepGraph) {
  Var y = Mul(a_, b_);
  for (int i = 0; i < 200000; ++i) y = Add(y, Var(a_));
  Backward(y, params_);
  EXPECT_EQ(Grad(a_), 200005);
  Var unused = Mul(a_, b_);
  for (int i = 0; i < 200000; ++i) unused = Add(unused, Var(a_));  // destroyed without a backward pass
}

TEST_F(AutogradTest, RefusesWhatCannotWork) {
  const Var loss = Mul(a_, b_);
  Backward(loss, params_);
  EXPECT_THROW(Backward(loss, params_), std::logic_error);
  EXPECT_THROW(Backward(Var(Of({1})), params_), InvalidInput);
  EXPECT_THROW(Backward(Mul(Var(Of({1, 2})), Var(Of({1, 2}))), params_), InvalidInput);
  std::vector<Parameter*> only_a{&a_};
  EXPECT_THROW(Backward(Mul(a_, b_), only_a), InvalidInput);
}

TEST_F(AutogradTest, AContributionThatIsForgottenIsNamed) {
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(Mul(a_, b_, {0}), params_, Hook()); }),
            "Backward: operation 'mul' contributed nothing to the gradient of parameter 'b', its input 1");
  EXPECT_EQ(log_.events, (std::vector<std::string>{"mul0", "ready a"}));  // and never b
  EXPECT_EQ(
      ErrorOf<std::logic_error>([&] { Backward(Mul(Add(a_, b_), c_, {1}), params_); }),
      "Backward: operation 'mul' contributed nothing to the gradient of the output of 'add', its input 0");
  // Even where another operation has contributed to the same value.
  const Var x = Add(a_, b_);
  EXPECT_EQ(
      ErrorOf<std::logic_error>([&] { Backward(Mul(Mul(x, c_, {1}), x), params_); }),
      "Backward: operation 'mul' contributed nothing to the gradient of the output of 'add', its input 0");
  // What leads to no parameter is not waited for.
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(Mul(a_, Var(Of({2})), {0}), params_); }), "no error");
}

TEST_F(AutogradTest, AContributionThatIsMadeTwiceIsNamed) {
  const std::string error =
      "Backward: operation 'mul' contributed twice to the gradient of parameter 'a', its input 0";
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(Mul(a_, b_, {0, 0, 1}), params_); }), error);
  // This one would have been ready too early.
  EXPECT_EQ(ErrorOf<std::logic_error>([&] {
              Backward(Mul(Mul(a_, b_), a_, {1, 1, 0}), params_, Hook());
            }),
            "Backward: operation 'mul' contributed twice to the gradient of parameter 'a', its input 1");
  EXPECT_EQ(log_.events.back(), "mul1");
}

TEST_F(AutogradTest, AParameterThatIsListedTwiceIsNamed) {
  const std::vector<Parameter*> twice{&a_, &b_, &c_, &b_};
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(Mul(a_, b_), twice); }),
            "parameter 'b' is listed twice");
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Trained(twice); }), "parameter 'b' is listed twice");
}

TEST_F(AutogradTest, AValueThatIsChangedBeforeItsGradientsIsNamed) {
  const std::string error =
      "Backward: parameter 'b' was changed after operation 'mul' had read it, and before its gradients were "
      "computed";
  const Var loss = Mul(Mul(a_, b_), c_);
  b_.MutableValue();
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(loss, params_, Hook()); }), error);
  EXPECT_TRUE(log_.events.empty());  // nothing has been sent
  const Var again = Mul(Mul(a_, b_), c_);
  b_.BeginUpdate();
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(again, params_); }), error);
  Backward(Mul(Mul(a_, b_), c_), params_);
  // What the graph does not use may change.
  const Var without = Mul(a_, b_);
  c_.MutableValue();
  Backward(without, params_);
}

// The hook of an operation's first parameter comes before the operation is done with its value.
TEST_F(AutogradTest, AValueThatIsChangedByTheHookIsNamed) {
  const GradHook update = [](Parameter& p) { p.MutableValue(); };
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(Mul(a_, b_), params_, update); }),
            "Backward: parameter 'a' was changed after operation 'mul' had read it, and before its gradients "
            "were computed");
}

TEST_F(AutogradTest, AFrozenParameterThatWasChangedIsNamed) {
  b_.Freeze();
  const Var product = Mul(a_, b_);
  b_.MutableValue();
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(product, params_, Hook()); }),
            "Backward: parameter 'b' was changed after operation 'mul' had read it, and before its gradients "
            "were computed");
  EXPECT_TRUE(log_.events.empty());  // nothing has been sent
}

// A batch that is filled again, by each of the functions that write.
TEST_F(AutogradTest, AConstantThatWasWrittenIsAnError) {
  const Tensor storage = Of({2, 4}), x = storage.Slice(0, {1}), other = Of({6});
  const std::vector<std::function<void()>> writes = {[&] { x.CopyFrom(other); },
                                                     [&] { storage.Zero(); },
                                                     [&] { AddTo(other, x); },
                                                     [&] { Fill(x, 8); },
                                                     [&] { Scale(x, 2); },
                                                     [&] { FillUniform(x, 0, 1, 0, 0); },
                                                     [&] {
                                                       x.data<double>()[0] = 9;
                                                       x.CountWrite();
                                                     }};
  for (const auto& write : writes) {
    const Var product = Mul(a_, Var(x));
    write();
    EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(product, params_, Hook()); }),
              "Backward: a constant was changed after operation 'mul' had read it, and before its gradients "
              "were computed");
    EXPECT_TRUE(log_.events.empty());
  }
  // The same holds for outputs of operations.
  const Var product = Mul(a_, b_), sum = Add(product, product);
  Fill(product.value(), 1);
  EXPECT_EQ(ErrorOf<std::logic_error>([&] { Backward(sum, params_); }),
            "Backward: the output of 'mul' was changed after operation 'add' had read it, and before its "
            "gradients were computed");
  // Filled between two steps, as a batch is.
  for (const double value : {1.0, 2.0}) {
    Fill(x, value);
    a_.ResetGrad();
    Backward(Mul(a_, Var(x)), params_);
    EXPECT_EQ(Grad(a_), value);
  }
}

TEST_F(AutogradTest, AGradientOnAnotherDeviceIsRefused) {
  EXPECT_THROW(a_.PlaceGrad(Of({0}).To(CpuDevice())), InvalidInput);
}

TEST_F(AutogradTest, AFrozenParameterIsAConstant) {
  b_.Freeze();
  EXPECT_FALSE(Mul(b_, b_).requires_grad());
  Backward(Mul(Mul(b_, a_), b_), params_, Hook());
  EXPECT_EQ(log_.events, (std::vector<std::string>{"mul0", "mul1", "ready a", "ready c"}));
  EXPECT_EQ(Grad(a_), 25);
  EXPECT_FALSE(b_.has_grad());
  EXPECT_EQ(Trained(params_), (std::vector<Parameter*>{&a_, &c_}));
}

// Forward's reads are heard when they happen, backward's before the operation that has read, also of what is
// frozen.
TEST_F(AutogradTest, UsesAreHeardInForwardAndInBackward) {
  b_.Freeze();
  for (Parameter* param : params_)
    param->SetOnRead([this, param] { log_.events.push_back("read " + param->name()); });
  const Var product = Mul(Mul(a_, b_), c_);
  std::ranges::sort(log_.events);  // The order in which arguments are made is the compiler's.
  EXPECT_EQ(log_.events, (std::vector<std::string>{"read a", "read b", "read c"}));
  log_.events.clear();
  Backward(product, params_, Hook(),
           [this](const Parameter& p) { log_.events.push_back("use " + p.name()); });
  EXPECT_EQ(log_.events, (std::vector<std::string>{"use c", "mul0", "mul1", "ready c", "use a", "use b",
                                                   "mul0", "ready a"}));
}

// What is brought into placed memory before each read may be other numbers than forward's neighbours left
// there.
TEST_F(AutogradTest, AHookOfAUseMayBringTheValueBack) {
  const Tensor shared = Of({0});
  const auto bring = [&](double value) { shared.data<double>()[0] = value; };
  a_.PlaceForwardValue(shared);
  b_.PlaceForwardValue(shared);
  a_.SetOnRead([&] { bring(3); });
  b_.SetOnRead([&] { bring(5); });
  Backward(Mul(Mul(c_, a_), b_), params_, {}, [&](const Parameter& p) { bring(&p == &a_ ? 3 : 5); });
  EXPECT_EQ(Grad(c_), 3 * 5);
  EXPECT_EQ(Grad(a_), 7 * 5);
  EXPECT_EQ(Grad(b_), 7 * 3);
}

// What operations read of a parameter with a copy in bf16.
float ReadOf(Parameter& p) { return static_cast<float>(Var(p).value().ToVector<BF16>().at(0)); }

void Write(const Tensor& place, float value) {
  place.CopyFrom(Tensor::From<float>(place.device(), {1}, std::span<const float>(&value, 1)));
}

class ParameterCopyTest : public testing::Test {
 protected:
  DevicePtr device_ = CpuDevice();
  Parameter p_{"p", Tensor::Zeros(device_, {1}, DType::kF32), Parameter::Copy::kBF16};
};

TEST_F(ParameterCopyTest, IsTheValueRounded) {
  Write(p_.MutableValue(), 1 + 0x1p-12f);
  EXPECT_EQ(ReadOf(p_), 1);
  EXPECT_EQ(p_.value().ToVector<float>()[0], 1 + 0x1p-12f);
  EXPECT_EQ(p_.ForwardValue().dtype(), DType::kBF16);
  EXPECT_EQ(p_.grad().dtype(), DType::kF32);
}

TEST_F(ParameterCopyTest, IsNeverStaleWhoeverWritesTheValue) {
  Write(p_.MutableValue(), 2);
  EXPECT_EQ(ReadOf(p_), 2);
  Write(p_.MutableValue(), 3);
  EXPECT_EQ(ReadOf(p_), 3);
  // Through handles that were kept, as a collective that is under way keeps one.
  const Tensor handle = p_.MutableValue();
  EXPECT_EQ(ReadOf(p_), 3);
  Write(handle, 4);
  EXPECT_EQ(ReadOf(p_), 4);
  const Tensor view = handle.Slice(0, {1});
  EXPECT_EQ(ReadOf(p_), 4);
  Write(view, 5);
  EXPECT_EQ(ReadOf(p_), 5);
}

// An update that writes both is not repeated.
TEST_F(ParameterCopyTest, IsStaleAfterMutableValueAndNotAfterReading) {
  EXPECT_EQ(ReadOf(p_), 0);
  const Parameter::Update update = p_.BeginUpdate();
  update.value.data<float>()[0] = 6;
  update.copy.data<BF16>()[0] = BF16(7.0f);  // another number, to see that it is what is read
  const Parameter& to_read = p_;
  EXPECT_EQ(to_read.value().ToVector<float>()[0], 6);
  EXPECT_EQ(p_.value().ToVector<float>()[0], 6);
  EXPECT_EQ(ReadOf(p_), 7);
  EXPECT_EQ(p_.MutableValue().ToVector<float>()[0], 6);
  EXPECT_EQ(ReadOf(p_), 6);
}

TEST_F(ParameterCopyTest, IsInOnePlaceForEver) {
  const void* const place = p_.ForwardValue().raw_data();
  Write(p_.MutableValue(), 8);
  EXPECT_EQ(p_.ForwardValue().raw_data(), place);
  EXPECT_EQ(p_.BeginUpdate().copy.raw_data(), place);
}

// With a copy and without, which operations read.
TEST(Parameter, AValueMayBeElsewhereForAWhile) {
  const DevicePtr device = CpuDevice();
  const auto of = [&](std::vector<float> values) {
    return Tensor::From<float>(device, {std::ssize(values)}, std::span<const float>(values));
  };
  for (const auto copy : {Parameter::Copy::kNone, Parameter::Copy::kBF16}) {
    Parameter p("p", of({1}), copy);
    const Tensor place = of({2});
    const auto read = [&] {
      const Tensor value = p.ForwardValue();
      return value.dtype() == DType::kF32 ? value.data<float>()[0]
                                          : static_cast<float>(value.data<BF16>()[0]);
    };
    EXPECT_EQ(read(), 1);
    const uint64_t before = p.version();
    p.PlaceValue({});
    EXPECT_EQ(p.version(), before) << "it was not elsewhere";
    p.PlaceValue(place);
    EXPECT_GT(p.version(), before);
    EXPECT_EQ(p.own_bytes(), p.has_copy() ? 2u : 0u);
    EXPECT_TRUE(p.value().SameStorage(place));
    EXPECT_EQ(read(), 2);
    p.MutableValue().data<float>()[0] = 3;
    EXPECT_EQ(place.data<float>()[0], 3);
    EXPECT_EQ(read(), 3);
    EXPECT_TRUE(p.BeginUpdate().value.SameStorage(place));
    p.PlaceValue({});
    EXPECT_EQ(p.value().data<float>()[0], 1);
    EXPECT_EQ(read(), 1);
    EXPECT_THROW(p.PlaceValue(of({1, 2})), InvalidInput);
    EXPECT_EQ(p.own_bytes(), p.has_copy() ? 6u : 4u);
  }
}

// Alone, without the value, if it is a copy.
TEST(Parameter, WhatForwardReadsMayBeElsewhereForAWhile) {
  const DevicePtr device = CpuDevice();
  for (const auto copy : {Parameter::Copy::kNone, Parameter::Copy::kBF16}) {
    Parameter p("p", Tensor::Zeros(device, {1}, DType::kF32), copy);
    const DType dtype = p.has_copy() ? DType::kBF16 : DType::kF32;
    const Tensor place = Tensor::Zeros(device, {1}, dtype);
    const uint64_t before = p.version();
    p.PlaceForwardValue(place);
    EXPECT_GT(p.version(), before);
    EXPECT_TRUE(p.ForwardValue().SameStorage(place));
    EXPECT_EQ(p.value().SameStorage(place), !p.has_copy());
    EXPECT_EQ(p.own_bytes(), 0u);
    // Who fills the place rounds.
    p.MutableValue();
    EXPECT_TRUE(p.ForwardValue().SameStorage(place));
    p.TakeBack();
    EXPECT_FALSE(p.ForwardValue().SameStorage(place));
    EXPECT_EQ(p.own_bytes(), p.has_copy() ? 6u : 4u);
    EXPECT_THROW(p.PlaceForwardValue(Tensor::Zeros(device, {2}, dtype)), InvalidInput);
    EXPECT_THROW(p.PlaceForwardValue(Tensor::Zeros(device, {1}, DType::kF64)), InvalidInput);
  }
}

// The hook comes before the value is looked at, in which it may bring another one, and move it.
TEST(Parameter, WhoListensHearsOfEachReadBeforeIt) {
  const DevicePtr device = CpuDevice();
  for (const auto copy : {Parameter::Copy::kNone, Parameter::Copy::kBF16}) {
    Parameter p("p", Tensor::Zeros(device, {1}, DType::kF32), copy);
    int reads = 0;
    p.SetOnRead([&] {
      ++reads;
      p.MutableValue().data<float>()[0] = 3;
    });
    EXPECT_EQ(p.value().data<float>()[0], 0);
    EXPECT_EQ(reads, 0);
    const Var var(p);
    EXPECT_EQ(p.has_copy() ? ReadOf(p) : var.value().ToVector<float>()[0], 3);
    EXPECT_EQ(reads, p.has_copy() ? 2 : 1);
    p.TakeBack();
    const Var unheard(p);
    EXPECT_EQ(reads, p.has_copy() ? 2 : 1);
  }
}

TEST(Parameter, WithoutACopyOperationsReadTheValue) {
  Parameter p("p", Tensor::Zeros(CpuDevice(), {1}, DType::kF32));
  EXPECT_TRUE(p.ForwardValue().SameStorage(p.value()));
  EXPECT_FALSE(p.BeginUpdate().copy.defined());
}

TEST(Parameter, RefusesACopyOfWhatIsNotF32) {
  EXPECT_THROW(Parameter("p", Tensor::Zeros(CpuDevice(), {1}, DType::kF64), Parameter::Copy::kBF16),
               InvalidInput);
}

}  // namespace
}  // namespace gradsync::model
