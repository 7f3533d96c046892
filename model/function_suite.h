#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/autograd.h"
#include "model/base/test_errors.h"  // IWYU pragma: export
#include "model/function_cases.h"
#include "model/functions.h"
#include "model/gradient_check.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

// Defines GoogleTest suites that check differentiable operations. Each test gets the operation that it checks
// from its GoogleTest parameter, a FunctionCase. The suite FunctionTest runs on the CPU and on CUDA, the
// other suites only on the CPU. A test's source file includes this header, and instantiates the suites that
// the test needs with the test's FunctionCases.
namespace gradsync::model {

inline std::vector<double> ToDouble(const Tensor& tensor) {
  std::vector<double> wide;
  DispatchAnyFloat(tensor.dtype(), "test", [&]<class T>() {
    for (const T value : tensor.ToVector<T>())
      wide.push_back(static_cast<double>(static_cast<Wide<T>>(value)));
  });
  return wide;
}

struct Stored {
  explicit Stored(const Tensor& tensor) : values(ToDouble(tensor)), dtype(tensor.dtype()) {}

  std::vector<double> values;
  DType dtype;

  bool operator==(const Stored&) const = default;
};

// Returns a tensor of truncated normal random numbers with the shape, dtype and device of `output`.
inline Tensor RandomLike(const Tensor& output) {
  const Tensor wide = Tensor::Empty(output.device(), output.shape(), WideDType(output.dtype()));
  FillTruncatedNormal(wide, 1.0, /*seed=*/5, /*stream=*/0);
  if (output.dtype() != DType::kBF16) return wide;
  Tensor rounded = Tensor::Empty(output.device(), output.shape(), DType::kBF16);
  Cast(wide, rounded);
  return rounded;
}

inline std::vector<Stored> StoredGrads(const std::vector<Parameter*>& params) {
  std::vector<Stored> grads;
  for (Parameter* const param : params) grads.emplace_back(param->grad());
  return grads;
}

// The results of a test case's operation: its output, and the gradients of its inputs that backward computes
// from dy, a random gradient of the output.
struct CaseResult {
  std::vector<double> dy;
  Stored output;
  std::vector<Stored> input_grads;
};

// Runs forward and backward of the operation of test case c. If `displaced` is 2 i, the Parameter value of
// input i is not aligned to 16 bytes; the value's copy in bf16, if there is one, is aligned. If `displaced`
// is 2 i + 1, the memory of the gradient of input i is not aligned to 16 bytes. By default all values and
// gradients are aligned.
inline CaseResult Compute(const FunctionCase& c, const DevicePtr& device, DType dtype,
                          size_t displaced = SIZE_MAX) {
  const auto displace = [](const Tensor& tensor) {
    const Tensor room = Tensor::Empty(tensor.device(), {tensor.numel() + 1}, tensor.dtype());
    Tensor place = room.Slice(1, tensor.shape());
    place.CopyFrom(tensor);
    return place;
  };
  std::deque<Parameter> params;
  std::vector<Parameter*> list;
  std::vector<Var> vars;
  // On the CPU, the loop below allocates memory blocks, fills them with NaN and frees them. Later tensors of
  // at most 4 KiB may reuse these blocks. A kernel that reads a block full of NaN before writing the block
  // computes NaN, which tests find.
  for (int64_t n = 32; device->is_cpu() && n <= 2048; n += 32)
    PoisonFreeMemory({Tensor::Empty(device, {n}, DType::kBF16)});
  for (Tensor& input : MakeInputs(c, device, dtype)) {
    PoisonFreeMemory({input});
    const size_t i = params.size();
    if (displaced == 2 * i) input = displace(input);
    Parameter& param = params.emplace_back("input", std::move(input), CopyOfInput(c, i, dtype));
    list.push_back(&param);
    vars.emplace_back(param);
    param.grad();
    if (displaced == 2 * i + 1) param.PlaceGrad(displace(param.grad()));
  }
  const Var output = c.function(vars);
  const Tensor dy = RandomLike(output.value());
  CaseResult result{.dy = ToDouble(dy), .output = Stored(output.value()), .input_grads = {}};
  Backward(Project({output}, dy), list);
  result.input_grads = StoredGrads(list);
  return result;
}

// Calls the operation of case c twice with the same inputs, and returns the inputs' gradients. Each gradient
// is the sum of the contributions of both calls. If `intermediate` is true, inputs of the dtype `dtype` are
// not parameters, but outputs of another operation.
inline std::vector<Stored> ComputeTwice(const FunctionCase& c, DType dtype, bool intermediate) {
  const DevicePtr device = c.device();
  std::deque<Parameter> params;
  std::vector<Parameter*> list;
  std::vector<Var> vars;
  for (Tensor& input : MakeInputs(c, device, dtype)) {
    const bool has_intermediate = intermediate && input.dtype() == dtype;
    list.push_back(&params.emplace_back("input", std::move(input), CopyOfInput(c, params.size(), dtype)));
    vars.push_back(has_intermediate ? Intermediate(params.back()) : Var(params.back()));
  }
  const std::vector<Var> outputs{c.function(vars), c.function(vars)};
  Backward(Project(outputs, RandomLike(outputs[0].value())), list);
  return StoredGrads(list);
}

// Returns the largest error that tests allow in an operation's result, relative to 1 + the 2-norm of the
// expected result (ExpectClose). Rounding makes a relative error of about sqrt(L) eps in a sum of L =
// longest_sum random terms, where eps is the machine epsilon of f32 or f64. For f32 and f64, Tolerance
// returns a relative error of 16 sqrt(L) eps. Rounding to bf16 changes a value by at most 2^-8 of the value;
// for bf16, Tolerance returns a relative error of 4 * 2^-8.
inline double Tolerance(DType dtype, int64_t longest_sum) {
  if (dtype == DType::kBF16) return 4 * 0x1p-8;
  const double eps = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                          : double{std::numeric_limits<float>::epsilon()};
  return 16 * eps * std::sqrt(static_cast<double>(longest_sum));
}

// Expects |got - want| <= Tolerance(got.dtype, longest_sum) * (1 + |want|) for the values `got` of a tensor,
// where |x| is the 2-norm of a vector x. The summand 1 allows for small errors in results near zero.
inline void ExpectClose(const Stored& got, const std::vector<double>& want, int64_t longest_sum,
                        const std::string& what) {
  ASSERT_EQ(got.values.size(), want.size()) << what;
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got.values[i] - want[i]) * (got.values[i] - want[i]);
    norm += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(error), Tolerance(got.dtype, longest_sum) * (1 + std::sqrt(norm))) << what;
}

// Checks that each case's results stay the same, within the tolerance, if one array, the value or the
// gradient of an input, is not aligned to 16 bytes. Many CUDA kernels access 16 bytes at a time, and must not
// do so for arrays that are not aligned.
inline void ExpectArraysMayBeginAnywhere(const std::vector<FunctionCase>& cases) {
  for (const FunctionCase& c : cases) {
    for (const DType dtype : c.dtypes) {
      const CaseResult want = Compute(c, c.device(), dtype);
      for (size_t displaced = 0; displaced < 2 * c.inputs.size(); ++displaced) {
        const std::string what = Join(c.name, " ", Name(dtype), " with array ", displaced, " displaced");
        const CaseResult got = Compute(c, c.device(), dtype, displaced);
        ExpectClose(got.output, want.output.values, c.longest_sum, what);
        for (size_t i = 0; i < c.inputs.size(); ++i) {
          ExpectClose(got.input_grads[i], want.input_grads[i].values, c.longest_sum, what);
        }
      }
    }
  }
}

class FunctionTest : public testing::TestWithParam<FunctionCase> {};

inline std::string CaseName(const testing::TestParamInfo<FunctionCase>& info) { return info.param.name; }

TEST_P(FunctionTest, EqualsThePlainImplementation) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : c.dtypes) {
    const DevicePtr device = c.device();
    const CaseResult got = Compute(c, device, dtype);
    std::vector<std::vector<double>> inputs;
    for (const Tensor& input : MakeInputs(c, device, dtype)) inputs.push_back(ToDouble(input));
    const PlainResult want = c.plain(inputs, got.dy);
    const std::string name(Name(dtype));
    ExpectClose(got.output, want.output, c.longest_sum, name + " output");
    for (size_t i = 0; i < want.input_grads.size(); ++i) {
      ExpectClose(got.input_grads[i], want.input_grads[i], c.longest_sum,
                  name + " gradient of input " + std::to_string(i));
    }
  }
}

TEST_P(FunctionTest, AddsToWhatIsThere) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : c.dtypes) {
    CaseResult want = Compute(c, c.device(), dtype);
    for (Stored& grad : want.input_grads) {
      for (double& value : grad.values) value *= 2;
    }
    for (const bool intermediate : {false, true}) {
      const std::vector<Stored> got = ComputeTwice(c, dtype, intermediate);
      for (size_t i = 0; i < got.size(); ++i) {
        ExpectClose(got[i], want.input_grads[i].values, c.longest_sum,
                    std::string(Name(dtype)) + " gradient of input " + std::to_string(i));
      }
    }
  }
}

TEST_P(FunctionTest, IsDeterministic) {
  const FunctionCase& c = GetParam();
  const DevicePtr device = c.device();
  for (const DType dtype : c.dtypes) {
    const CaseResult first = Compute(c, device, dtype);
    const CaseResult again = Compute(c, device, dtype);
    EXPECT_EQ(again.output, first.output) << Name(dtype);
    EXPECT_EQ(again.input_grads, first.input_grads) << Name(dtype);
  }
}

// Checks that adding a number to all logits changes neither CrossEntropy's loss nor its gradient. Also
// checks, to within 1e-6, that in f32 the gradient's elements have the sum 0, and that in bf16 equal logits
// give the loss log(number of logits).
inline void ExpectCrossEntropyIsOfDifferences(const DevicePtr& device) {
  constexpr int64_t kVocab = 300;
  const auto compute = [&](DType dtype, double offset) {
    // For f32, logit i is offset + (37 i % 101) / 64, which f32 represents exactly for the offsets 0 and 1e4.
    // bf16 would round these sums, so for bf16 every logit is `offset`, rounded to bf16.
    std::vector<float> values;
    for (int64_t i = 0; i < kVocab; ++i)
      values.push_back(static_cast<float>(offset + (dtype == DType::kBF16 ? 0 : 1.0 / 64 * (i * 37 % 101))));
    const Tensor wide = Tensor::From<float>(device, {1, kVocab}, std::span<const float>(values));
    const Tensor rounded = Tensor::Empty(device, {1, kVocab}, DType::kBF16);
    Cast(wide, rounded);
    Parameter logits("logits", dtype == DType::kBF16 ? rounded : wide);
    std::vector<Parameter*> list{&logits};
    const std::vector<int32_t> ids{7};
    const Var loss = CrossEntropy(logits, Tensor::From<int32_t>(device, {1}, std::span<const int32_t>(ids)));
    Backward(loss, list);
    return std::pair(ToDouble(loss.value())[0], ToDouble(logits.grad()));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto [loss, grad] = compute(dtype, 1e4);
    EXPECT_EQ(compute(dtype, 0), std::pair(loss, grad)) << Name(dtype);
    if (dtype == DType::kF32) {
      EXPECT_NEAR(std::accumulate(grad.begin(), grad.end(), 0.0), 0, 1e-6);
    } else {
      EXPECT_NEAR(loss, std::log(kVocab), 1e-6);
    }
  }
}

// Checks that CrossEntropy, SwiGlu and CausalAttention have correct outputs and finite gradients for inputs
// of 1e4 and -1e4, although exp(1e4) is too large for f32.
inline void ExpectLargeNumbersDoNotOverflow(const DevicePtr& device) {
  const std::vector<float> values{1e4f, -1e4f, 0.0f, 1e4f};
  Parameter x("x", Tensor::From<float>(device, {1, 2, 2}, std::span<const float>(values)));
  std::vector<Parameter*> list{&x};
  const std::vector<int32_t> ids{0, 0};
  const Tensor targets = Tensor::From<int32_t>(device, {1, 2}, std::span<const int32_t>(ids));
  const Var loss = CrossEntropy(x, targets);
  EXPECT_EQ(loss.value().ToVector<float>(), std::vector<float>{5e3f});
  Backward(loss, list);
  EXPECT_EQ(x.grad().ToVector<float>(), (std::vector<float>{0, 0, -0.5f, 0.5f}));

  x.ResetGrad();
  const std::vector<float> four(4, 1.0f);
  const Tensor ones = Tensor::From<float>(device, {1, 2, 2}, std::span<const float>(four));
  const Var gated = SwiGlu(x, Var(ones));
  EXPECT_EQ(gated.value().ToVector<float>(), (std::vector<float>{1e4f, 0, 0, 1e4f}));
  Backward(Project({gated}, ones), list);
  EXPECT_EQ(x.grad().ToVector<float>(), (std::vector<float>{1, 0, 0.5f, 1}));

  x.ResetGrad();
  const Var attended = CausalAttention(x, x, x, 1);
  // x has two positions. The second position has the attention scores (products q k^T) -1e8 for the first
  // position and 1e8 for itself, so it attends only to itself.
  EXPECT_EQ(attended.value().ToVector<float>(), values);
  Backward(Project({attended}, ones), list);
  for (const float g : x.grad().ToVector<float>()) EXPECT_TRUE(std::isfinite(g));
}

// Checks that Rope's result does not depend on the lengths of the sequences in earlier calls. For each dtype,
// head_dim and theta, the device keeps a table of cosines and sines. Rope replaces the table by a longer one
// for a longer sequence, and reads a part of the table for a shorter sequence.
inline void ExpectRopeIsTheSameAfterOtherLengths(const std::function<DevicePtr()>& new_device) {
  const auto rotate = [](const DevicePtr& device, int64_t seq, double theta) {
    const Tensor x = Tensor::Empty(device, {1, seq, 8}, DType::kF32);
    FillTruncatedNormal(x, 1.0, /*seed=*/4, /*stream=*/0);
    return Rope(Var(x), 2, theta).value().ToVector<float>();
  };
  const DevicePtr device = new_device();
  for (const int64_t seq : {3, 9, 5, 1}) {
    for (const double theta : {10000.0, 500.0}) {
      EXPECT_EQ(rotate(device, seq, theta), rotate(new_device(), seq, theta)) << seq << " " << theta;
    }
  }
}

class FunctionThreadsTest : public testing::TestWithParam<FunctionCase> {};

TEST_P(FunctionThreadsTest, IsTheSameForAnyNumberOfThreads) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : c.dtypes) {
    const CaseResult one = Compute(c, CpuDevice(1), dtype);
    for (const int threads : {2, 3}) {
      const CaseResult more = Compute(c, CpuDevice(threads), dtype);
      if (c.same_for_any_threads) {
        EXPECT_EQ(more.output, one.output) << threads << " threads";
        EXPECT_EQ(more.input_grads, one.input_grads) << threads << " threads";
        continue;
      }
      ExpectClose(more.output, one.output.values, c.longest_sum, "output");
      for (size_t i = 0; i < one.input_grads.size(); ++i) {
        ExpectClose(more.input_grads[i], one.input_grads[i].values, c.longest_sum, "gradient");
      }
    }
  }
}

class FunctionGradientTest : public testing::TestWithParam<FunctionCase> {};

TEST_P(FunctionGradientTest, EqualsCentralDifferences) {
  EXPECT_TRUE(CheckGradients(GetParam().function, MakeInputs(GetParam(), CpuDevice(), DType::kF64)));
}

// Tests on CUDA do not instantiate FunctionThreadsTest and FunctionGradientTest. Without the macros below,
// GoogleTest would report a suite that is not instantiated as an error.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FunctionThreadsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FunctionGradientTest);

}  // namespace gradsync::model
