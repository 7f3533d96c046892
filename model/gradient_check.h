#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/autograd.h"

// Checks backward passes with the forward pass only. For tests. CheckGradients runs on the CPU, and the other
// functions run on every device.
namespace gradsync::model {

// A differentiable function of its inputs. All calls must compute one function.
using Function = std::function<Var(const std::vector<Var>& inputs)>;

// Returns the sum over i of the inner products of outputs[i] and weights: one number that depends on every
// output. Every output has the shape of `weights`, or as many elements as `weights`. f32, f64 or bf16.
Var Project(const std::vector<Var>& outputs, const Tensor& weights);

// Computes the identity, so that the result is an intermediate value and not a parameter.
Var Intermediate(const Var& x);

// Fills memory blocks of the tensors' sizes with NaN and frees them, so that the device's allocator reuses
// them next. A kernel that reads memory before writing it then computes NaN.
void PoisonFreeMemory(const std::vector<Tensor>& tensors);

// Compares the gradients of fn with respect to all inputs (f64) with central differences of a random
// projection of its output. With x the largest input, and s the sum of the projected terms' absolute values:
// a step h = cbrt(eps) * max(1, |x|) makes a truncation error of about h^2 |f'''| / 6 and a rounding error of
// eps * s / h, both about eps^(2/3) s. The tolerance is 100 eps^(2/3) max(1, s), which is 4e-9 max(1, s).
//
// CheckGradients also compares the gradients, up to rounding, in these cases:
// - for parameters, for intermediate values, and for each input alone with constants for the other inputs;
// - if the gradient's memory held NaN before;
// - if the function occurs twice in one graph, as a sum;
// - if the gradients are added to the gradients of an earlier pass.
testing::AssertionResult CheckGradients(const Function& fn, const std::vector<Tensor>& inputs);

}  // namespace gradsync::model
