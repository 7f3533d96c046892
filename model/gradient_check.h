#ifndef GRADSYNC_MODEL_GRADIENT_CHECK_H_
#define GRADSYNC_MODEL_GRADIENT_CHECK_H_

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/autograd.h"

// Checks backward passes against the forward pass alone. For tests. CheckGradients is for the CPU, the rest
// for every device.
namespace gradsync::model {

// A differentiable function of its inputs; called again and again, it must be the same function.
using Function = std::function<Var(const std::vector<Var>& inputs)>;

// sum over i of outputs[i] . weights, elementwise: one number that depends on every output, for any shape.
// All have the shape of `weights`, or else of as many elements. f32, f64 or bf16.
Var Project(const std::vector<Var>& outputs, const Tensor& weights);

// The identity, whose result is an intermediate value and not a parameter.
Var Intermediate(const Var& x);

// Fills blocks of memory of the sizes of `tensors` with NaN and gives them back to the device's allocator,
// which hands them out next. A kernel that reads what it should overwrite then shows.
void PoisonFreeMemory(const std::vector<Tensor>& tensors);

// Succeeds if the gradients of fn with respect to all inputs (f64) are those of a random projection of its
// output by central differences. With x the largest input, and the projected terms' absolute sum s:
// a step h = cbrt(eps) * max(1, |x|) makes a truncation error in the order of h^2 |f'''| / 6 and a rounding
// error of eps * s / h, both about eps^(2/3) s; allowed are 100 eps^(2/3) max(1, s), that is 4e-9 max(1, s).
//
// It also requires that the gradients are the same, to rounding, however they are asked for:
// for parameters, intermediate values, and each input alone with constants for the others; where the place
// held NaN before; twice in one graph, as a sum; and added to an earlier pass's.
testing::AssertionResult CheckGradients(const Function& fn, const std::vector<Tensor>& inputs);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_GRADIENT_CHECK_H_
