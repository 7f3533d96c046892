#pragma once

#include <vector>

#include "model/function_cases.h"

// Makes test cases for every operation of model/vision/vision_functions.h. Each FunctionCase has the shapes
// of the inputs, the operation, and an independent implementation in plain loops, with which tests compare
// the operation's results.
namespace gradsync::model {

// Returns test cases with small shapes, so that gradients can be checked by central differences.
std::vector<FunctionCase> SmallVisionCases();
// Returns test cases with shapes like those of a residual network, most of them so large that several threads
// share the work.
std::vector<FunctionCase> LargeVisionCases();
// Returns test cases with small and with large shapes for the CUDA kernels of the operations. In these test
// cases, activations with pixels have the layout NCHW or NHWC, because the CUDA kernels support no other
// layouts.
std::vector<FunctionCase> CudaVisionCases();

}  // namespace gradsync::model
