#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "model/gradient_check.h"
#include "model/tensor/tensor.h"

// Test cases for every operation of model/functions.h on a range of shapes, each with an independent
// implementation in plain loops. A test that runs all cases checks all operations.
namespace gradsync::model {

// The results of a plain implementation in f64, from the inputs and the gradient of the output.
struct PlainResult {
  std::vector<double> output;
  std::vector<std::vector<double>> input_grads;
};

using PlainFunction =
    std::function<PlainResult(const std::vector<std::vector<double>>& inputs, const std::vector<double>& dy)>;

// The role of an input in a model. With activations in bf16, a matrix is a parameter's copy in bf16 with an
// f32 gradient, and a vector is f32.
enum class Role { kActivation, kMatrix, kVector };

struct FunctionCase {
  std::string name;              // a part of the test's name
  std::vector<Shape> inputs;     // shapes of the differentiable inputs
  std::vector<Role> roles = {};  // roles of the inputs; if empty, all inputs are activations
  Function function;
  PlainFunction plain;
  // Number of terms of the longest sum in forward or backward. Rounding errors grow with the square root of
  // this number.
  int64_t longest_sum = 1;
  // True if results do not depend on the number of threads.
  bool same_for_any_threads = true;
  std::vector<DType> dtypes = {DType::kF64, DType::kF32};
  // Makes the device on which the case runs.
  std::function<DevicePtr()> device = [] { return CpuDevice(); };

  friend std::ostream& operator<<(std::ostream& out, const FunctionCase& c) { return out << c.name; }
};

// Returns cases with small shapes: sizes of 1, odd sizes, and partly filled blocks of attention.
std::vector<FunctionCase> SmallFunctionCases();
// Returns cases with shapes that are large enough for several threads.
std::vector<FunctionCase> LargeFunctionCases();

// Returns the cases, and copies of the cases in bf16.
std::vector<FunctionCase> WithBF16(std::vector<FunctionCase> cases);

// Returns the cases on another device.
std::vector<FunctionCase> OnDevice(std::vector<FunctionCase> cases, const std::function<DevicePtr()>& device);

// Makes tensors with the case's input shapes, with the dtypes that activations and parameters have if
// activations are of `dtype`. Values are in [-3, 3] and exact in f32. If `dtype` is bf16, values of
// activations and matrices are exact in bf16.
std::vector<Tensor> MakeInputs(const FunctionCase& c, const DevicePtr& device, DType dtype);
// The Copy argument with which input i of the case becomes a parameter.
Parameter::Copy CopyOfInput(const FunctionCase& c, size_t i, DType dtype);

}  // namespace gradsync::model
