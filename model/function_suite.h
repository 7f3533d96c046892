#ifndef GRADSYNC_MODEL_FUNCTION_SUITE_H_
#define GRADSYNC_MODEL_FUNCTION_SUITE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "model/function_cases.h"
#include "model/gradient_check.h"
#include "model/random.h"

// Suites of tests that every differentiable operation passes on each of its cases: FunctionTest on every
// device and on all of them; on the CPU alone FunctionThreadsTest, and FunctionGradientTest on small ones.
// For one source of a test, which instantiates them.
namespace gradsync::model {

inline std::vector<double> ToDouble(const Tensor& tensor) {
  return DispatchFloat(tensor.dtype(), "test", [&]<class T>() {
    const std::vector<T> values = tensor.ToVector<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

// The output of a case and the gradients of its inputs, for one random gradient of the output.
struct CaseResult {
  std::vector<double> dy;
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

inline CaseResult Compute(const FunctionCase& c, const DevicePtr& device, DType dtype) {
  std::deque<Parameter> params;
  std::vector<Parameter*> list;
  std::vector<Var> vars;
  for (const Tensor& input : MakeInputs(c, device, dtype)) {
    list.push_back(&params.emplace_back("input", input));
    vars.emplace_back(params.back());
    PoisonFreeMemory({input});
    params.back().grad();
  }
  const Var output = c.function(vars);
  const Tensor dy = Tensor::Empty(device, output.value().shape(), dtype);
  FillTruncatedNormal(dy, 1.0, /*seed=*/5, /*stream=*/0);
  CaseResult result{.dy = ToDouble(dy), .output = ToDouble(output.value()), .input_grads = {}};
  Backward(Project({output}, dy), list);
  for (Parameter* param : list) result.input_grads.push_back(ToDouble(param->grad()));
  return result;
}

// The same gradients as sums of two in one graph, for parameters or for intermediate values.
inline std::vector<std::vector<double>> ComputeTwice(const FunctionCase& c, DType dtype, bool intermediate) {
  const DevicePtr device = c.device();
  std::deque<Parameter> params;
  std::vector<Parameter*> list;
  std::vector<Var> vars;
  for (const Tensor& input : MakeInputs(c, device, dtype)) {
    list.push_back(&params.emplace_back("input", input));
    vars.push_back(intermediate ? Intermediate(params.back()) : Var(params.back()));
  }
  const std::vector<Var> outputs{c.function(vars), c.function(vars)};
  const Tensor dy = Tensor::Empty(device, outputs[0].value().shape(), dtype);
  FillTruncatedNormal(dy, 1.0, /*seed=*/5, /*stream=*/0);
  Backward(Project(outputs, dy), list);
  std::vector<std::vector<double>> grads;
  for (Parameter* param : list) grads.push_back(ToDouble(param->grad()));
  return grads;
}

// Compares in the 2-norm, in which the rounding errors of sums of L random terms are about sqrt(L) eps times
// the norm of the result. Allowed is 16 times that, for functions made of several sums and exponentials. The
// one added to the norm stands for inputs of that size where the result itself vanishes.
inline void ExpectClose(const std::vector<double>& got, const std::vector<double>& want, double eps,
                        int64_t longest_sum, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(error), 16 * eps * std::sqrt(static_cast<double>(longest_sum)) * (1 + std::sqrt(norm)))
      << what;
}

class FunctionTest : public testing::TestWithParam<FunctionCase> {};

inline std::string CaseName(const testing::TestParamInfo<FunctionCase>& info) { return info.param.name; }

TEST_P(FunctionTest, EqualsThePlainImplementation) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const DevicePtr device = c.device();
    const CaseResult got = Compute(c, device, dtype);
    std::vector<std::vector<double>> inputs;
    for (const Tensor& input : MakeInputs(c, device, DType::kF64)) inputs.push_back(ToDouble(input));
    const PlainResult want = c.plain(inputs, got.dy);
    const double eps = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                            : double{std::numeric_limits<float>::epsilon()};
    const std::string name(Name(dtype));
    ExpectClose(got.output, want.output, eps, c.longest_sum, name + " output");
    for (size_t i = 0; i < want.input_grads.size(); ++i) {
      ExpectClose(got.input_grads[i], want.input_grads[i], eps, c.longest_sum,
                  name + " gradient of input " + std::to_string(i));
    }
  }
}

TEST_P(FunctionTest, AddsToWhatIsThere) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const double eps = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                            : double{std::numeric_limits<float>::epsilon()};
    CaseResult want = Compute(c, c.device(), dtype);
    for (std::vector<double>& grad : want.input_grads) {
      for (double& value : grad) value *= 2;
    }
    for (const bool intermediate : {false, true}) {
      const std::vector<std::vector<double>> got = ComputeTwice(c, dtype, intermediate);
      for (size_t i = 0; i < got.size(); ++i) {
        ExpectClose(got[i], want.input_grads[i], eps, c.longest_sum,
                    "gradient of input " + std::to_string(i));
      }
    }
  }
}

// Another run gives the same bits.
TEST_P(FunctionTest, IsDeterministic) {
  const FunctionCase& c = GetParam();
  const DevicePtr device = c.device();
  const CaseResult first = Compute(c, device, DType::kF32);
  const CaseResult again = Compute(c, device, DType::kF32);
  EXPECT_EQ(again.output, first.output);
  EXPECT_EQ(again.input_grads, first.input_grads);
}

class FunctionThreadsTest : public testing::TestWithParam<FunctionCase> {};

TEST_P(FunctionThreadsTest, IsTheSameForAnyNumberOfThreads) {
  const FunctionCase& c = GetParam();
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const CaseResult one = Compute(c, CpuDevice(1), dtype);
    for (const int threads : {2, 3}) {
      const CaseResult more = Compute(c, CpuDevice(threads), dtype);
      if (c.same_for_any_threads) {
        EXPECT_EQ(more.output, one.output) << threads << " threads";
        EXPECT_EQ(more.input_grads, one.input_grads) << threads << " threads";
        continue;
      }
      const double eps = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                              : double{std::numeric_limits<float>::epsilon()};
      ExpectClose(more.output, one.output, eps, c.longest_sum, "output");
      for (size_t i = 0; i < one.input_grads.size(); ++i) {
        ExpectClose(more.input_grads[i], one.input_grads[i], eps, c.longest_sum, "gradient");
      }
    }
  }
}

class FunctionGradientTest : public testing::TestWithParam<FunctionCase> {};

TEST_P(FunctionGradientTest, EqualsCentralDifferences) {
  EXPECT_TRUE(CheckGradients(GetParam().function, MakeInputs(GetParam(), CpuDevice(), DType::kF64)));
}

// The CPU's suites are not for every source.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FunctionThreadsTest);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FunctionGradientTest);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_FUNCTION_SUITE_H_
