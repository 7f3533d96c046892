#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/autograd.h"

// For tests: checks the gradients of an operation against differences of its outputs for slightly changed
// inputs. CheckGradients runs only on the CPU, the other functions on every device.
namespace gradsync::model {

// A differentiable function. For equal inputs it must always return equal outputs.
using Function = std::function<Var(const std::vector<Var>& inputs)>;

// Returns the sum over i of the inner products of outputs[i] and `weights`: a scalar loss that depends on all
// outputs. Every output must have the dtype (f32, f64 or bf16) and the number of elements of `weights`.
Var Project(const std::vector<Var>& outputs, const Tensor& weights);

// Returns a copy of x as the output of an operation, so that it is not a parameter but an intermediate value.
Var Intermediate(const Var& x);

// Allocates memory blocks of the tensors' sizes, fills them with NaN and frees them. The allocator reuses the
// freed blocks, so an operation that reads such a block before it writes it computes NaN.
void PoisonFreeMemory(const std::vector<Tensor>& tensors);

// Compares the gradients of fn with respect to all elements x of its inputs (f64) with the central
// differences (f(x + h) - f(x - h)) / (2 h), where f is the sum of fn's outputs multiplied by random weights.
// The step is h = cbrt(eps) * max(1, |x|), where eps is that of f64. The tolerance is 3.7e-9 times the sum of
// the absolute values of f's terms, at least 3.7e-9.
//
// CheckGradients also checks that the gradients are the same, up to rounding, if the inputs are intermediate
// values, if all inputs except one are constants, and if the memory of the gradients held NaN before. It also
// checks that the gradients double if the graph contains fn twice, or if Backward adds them to those of an
// earlier Backward.
testing::AssertionResult CheckGradients(const Function& fn, const std::vector<Tensor>& inputs);

}  // namespace gradsync::model
