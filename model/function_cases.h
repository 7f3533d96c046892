#ifndef GRADSYNC_MODEL_FUNCTION_CASES_H_
#define GRADSYNC_MODEL_FUNCTION_CASES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/gradient_check.h"
#include "model/tensor.h"

// Every operation of model/functions.h on a range of shapes, each with an independent implementation in plain
// loops. For tests: whatever runs on these cases is checked for all operations.
namespace gradsync::model {

// What a plain implementation in f64 makes of the inputs and the gradient of the output.
struct PlainResult {
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

using PlainFunction =
    std::function<PlainResult(const std::vector<std::vector<double>>& inputs, const std::vector<double>& dy)>;

// What an input is to a model. With activations in bf16, a matrix is a parameter's copy in bf16, whose
// gradient is f32, and a vector is f32.
enum class Role { kActivation, kMatrix, kVector };

struct FunctionCase {
  std::string name;              // as part of a test's name
  std::vector<Shape> inputs;     // shapes of the differentiable inputs
  std::vector<Role> roles = {};  // of the inputs; empty: all are activations
  Function function;
  PlainFunction plain;
  // Terms of the longest sum in it, forward or backward: rounding errors grow with its square root.
  int64_t longest_sum = 1;
  // Whether every thread computes elements of its own in the same way, however many there are.
  bool same_for_any_threads = true;
  std::vector<DType> dtypes = {DType::kF64, DType::kF32};
  // Where to run it.
  std::function<DevicePtr()> device = [] { return CpuDevice(); };

  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.name; }
};

// Small shapes, with sizes of 1, odd ones, and blocks of attention that are not full.
std::vector<FunctionCase> SmallFunctionCases();
// Shapes that are shared out to several threads.
std::vector<FunctionCase> LargeFunctionCases();

// The same cases in bf16 too.
std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases);

// The same cases somewhere else.
std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases, const std::function<DevicePtr()>& device);

// Tensors of the case's input shapes, of the dtype that parameters have when activations are of `dtype`.
// Their values are in [-3, 3], and f32 holds them exactly. If `dtype` is bf16, values of activations and
// matrices are such that bf16 holds them.
std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype);
// How input i of the case becomes a parameter.
Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_FUNCTION_CASES_H_
