#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/gradient_check.h"
#include "model/tensor/tensor.h"

// Test cases for every differentiable operation of model/functions.h. Each case has an independent
// implementation of its operation in plain loops, with which tests compare the operation's results.
namespace gradsync::model {

// The results of an operation that plain loops have computed in f64: the output, and the gradients of the
// inputs.
struct PlainResult {
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

using PlainFunction =
    std::function<PlainResult(const std::vector<std::vector<double>>& inputs, const std::vector<double>& dy)>;

// What an input of an operation is in a model: an activation, a weight matrix or a weight vector. In tests
// with bf16, a kActivation is bf16, a kMatrix is an f32 parameter with a copy in bf16, and a kVector is an
// f32 parameter.
enum class Role { kActivation, kMatrix, kVector };

struct FunctionCase {
  std::string name;              // a part of the test's name
  std::vector<Shape> inputs;     // shapes of the differentiable inputs
  std::vector<Role> roles = {};  // roles of the inputs; if empty, all inputs are activations
  Function function;
  PlainFunction plain;
  // The number of terms of the longest sum in the operation's forward or backward (for Rope, a number with
  // the same error). In f32 and f64, the tolerance with which results are compared grows with the square root
  // of this number.
  int64_t longest_sum = 1;
  bool same_for_any_threads = true;
  std::vector<DType> dtypes = {DType::kF64, DType::kF32};
  std::function<DevicePtr()> device = [] { return CpuDevice(); };

  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.name; }
};

// Returns cases with small shapes, which include sizes of 1 and odd sizes.
std::vector<FunctionCase> SmallFunctionCases();
// Returns cases with larger shapes. Most are large enough for several threads to share the work.
std::vector<FunctionCase> LargeFunctionCases();

// Returns the cases with bf16 added to the dtypes in which each one runs.
std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases);

std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases, const std::function<DevicePtr()>& device);

// Makes random values in [-3, 3] for the inputs of a case. The inputs have the dtype `dtype`. But if it is
// bf16, only kActivation inputs are bf16; the others are f32, and the values of kMatrix inputs are exact in
// bf16.
std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype);
// Returns the argument `copy` of the Parameter that a test makes for input i: kBF16 if `dtype` is bf16 and
// the input is a kMatrix, else kNone.
Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype);

}  // namespace gradsync::model
