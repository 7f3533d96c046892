#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/gradient_check.h"
#include "model/tensor/tensor.h"

// Defines test cases for every differentiable operation of model/functions.h. Each case has a second
// implementation of its operation, in plain loops. Tests compare the operation's results with those of the
// plain loops.
namespace gradsync::model {

// The results that a test expects of an operation: the output, and the gradients of the inputs, which plain
// loops have computed in f64.
struct PlainResult {
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

using PlainFunction =
    std::function<PlainResult(const std::vector<std::vector<double>>& inputs, const std::vector<double>& dy)>;

// Says what an input of an operation is in a model: an activation, a weight matrix or a weight vector. In
// tests with bf16, an input with the role kActivation is bf16, one with kMatrix is an f32 parameter with a
// copy in bf16, and one with kVector is an f32 parameter.
enum class Role { kActivation, kMatrix, kVector };

struct FunctionCase {
  std::string name;              // a part of the test's name
  std::vector<Shape> inputs;     // shapes of the differentiable inputs
  std::vector<Role> roles = {};  // roles of the inputs; if empty, all inputs are activations
  Function function;
  PlainFunction plain;
  // An upper bound for the number of terms of each sum that the operation computes in forward or backward.
  // For Rope, whose errors grow with the angles, longest_sum is instead the square of the sequence length. In
  // f32 and f64, the error that tests allow (Tolerance) is proportional to the square root of longest_sum.
  int64_t longest_sum = 1;
  bool same_for_any_threads = true;
  std::vector<DType> dtypes = {DType::kF64, DType::kF32};
  std::function<DevicePtr()> device = [] { return CpuDevice(); };

  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.name; }
};

// Returns test cases whose inputs have small shapes, with dimensions such as 1 and odd numbers.
std::vector<FunctionCase> SmallFunctionCases();
// Returns test cases, most of which have larger inputs than those of SmallFunctionCases(). In most cases the
// inputs are large enough for several CPU threads to share the operation's work.
std::vector<FunctionCase> LargeFunctionCases();

// Returns a copy of `cases` in which bf16 is added to the member `dtypes` of every case.
std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases);

std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases, const std::function<DevicePtr()>& device);

// Makes the input tensors of the operation that test case `c` checks, with random values in [-3, 3]. If
// `dtype` is not bf16, all inputs have this dtype. If `dtype` is bf16, only the inputs with the role
// kActivation are bf16; the others are f32, and the values of inputs with the role kMatrix are exact in bf16.
std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype);
// Returns the argument `copy` for the constructor of the Parameter for input i of test case `c`: kBF16 (a
// copy in bf16) if `dtype` is bf16 and the input is a weight matrix (Role::kMatrix), else kNone.
Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype);

}  // namespace gradsync::model
