#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "model/autograd.h"

// Declares functions for tests of operations. CheckGradients checks an operation's gradients against
// differences of its outputs for slightly changed inputs. CheckGradients takes only tensors on the CPU; the
// other functions also take tensors on a GPU.
namespace gradsync::model {

// The type of the differentiable functions that CheckGradients checks. For equal inputs, the function must
// return equal outputs in every call, because CheckGradients calls it many times.
using Function = std::function<Var(const std::vector<Var>& inputs)>;

// Returns the sum over i of the inner products of outputs[i] and `weights`: a scalar loss that depends on all
// outputs. Use the result only as the argument `loss` of Backward, because Project's backward takes the
// gradient of the result as 1. Every output must have the dtype (f32, f64 or bf16) and the number of elements
// of `weights`.
Var Project(const std::vector<Var>& outputs, const Tensor& weights);

// Returns a copy of x as the output of an operation, so that it is not a parameter but an intermediate value.
Var Intermediate(const Var& x);

// For each of `tensors` (f32, f64 or bf16), allocates four memory blocks of the tensor's size on the tensor's
// device, fills them with NaN and frees them. The device's allocator reuses freed blocks, still full of NaN,
// for the next tensors of the same size. An operation that reads a reused block before writing the block
// reads NaN. Throws InvalidInput for a tensor of another dtype.
void PoisonFreeMemory(const std::vector<Tensor>& tensors);

// Compares the gradients of fn with respect to all elements x of its inputs (f64) with the central
// differences (f(x + h) - f(x - h)) / (2 h). h is 6e-6 * max(1, |x|), and f is the sum of y * weight over all
// elements y of fn's output, with random weights. A gradient may differ from its central difference by at
// most 3.7e-9 * max(1, s), where s is the sum of |y * weight|.
//
// CheckGradients also checks that, up to rounding, the gradients stay the same if the inputs are intermediate
// values and not parameters. The gradient of each input must also, up to rounding, stay the same if all other
// inputs are constants. CheckGradients also checks that the gradients double if the loss is the sum over two
// calls of fn with the same inputs, or if a second Backward adds its gradients to the equal gradients of the
// first Backward.
testing::AssertionResult CheckGradients(const Function& fn, const std::vector<Tensor>& inputs);

}  // namespace gradsync::model
