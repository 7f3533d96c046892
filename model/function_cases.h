#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/gradient_check.h"
#include "model/tensor/tensor.h"

// Test cases for every differentiable operation of model/functions.h. Each case has the shapes of the inputs,
// and an independent implementation in plain loops with which results are compared.
namespace gradsync::model {

// What a plain implementation computes in f64 from the inputs and the gradient of the output.
struct PlainResult {
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

using PlainFunction =
    std::function<PlainResult(const std::vector<std::vector<double>>& inputs, const std::vector<double>& dy)>;

// What an input of an operation is in a model, which decides its dtype in bf16 tests: a kActivation is bf16,
// a kMatrix is a parameter with f32 value and gradient and a bf16 copy, and a kVector is an f32 parameter.
enum class Role { kActivation, kMatrix, kVector };

struct FunctionCase {
  std::string name;              // a part of the test's name
  std::vector<Shape> inputs;     // shapes of the differentiable inputs
  std::vector<Role> roles = {};  // roles of the inputs; if empty, all inputs are activations
  Function function;
  PlainFunction plain;
  // The number of terms of the longest sum in forward or backward. The tolerance grows with its square root,
  // as rounding errors do.
  int64_t longest_sum = 1;
  bool same_for_any_threads = true;
  std::vector<DType> dtypes = {DType::kF64, DType::kF32};
  std::function<DevicePtr()> device = [] { return CpuDevice(); };

  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.name; }
};

// Returns cases with small shapes, which include sizes of 1 and odd sizes.
std::vector<FunctionCase> SmallFunctionCases();
// Returns cases with shapes that are large enough for several threads.
std::vector<FunctionCase> LargeFunctionCases();

// Returns the cases with bf16 added to the dtypes in which each one runs.
std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases);

std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases, const std::function<DevicePtr()>& device);

// Makes random values in [-3, 3] for the inputs of a case. `dtype` is the dtype of activations. If it is
// bf16, kMatrix and kVector inputs are f32; the values of kMatrix inputs can be represented in bf16, so that
// their copy in bf16 is not rounded.
std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype);
// Returns kBF16 if input i of the case is to become a parameter with a copy in bf16 (a kMatrix, if `dtype` is
// bf16), else kNone.
Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype);

}  // namespace gradsync::model
