#pragma once

#include <vector>

#include "model/function_cases.h"

// Test cases for every operation of model/vision/vision_functions.h on a range of shapes, like
// model/function_cases.h. The plain implementations do not use channel blocks: they compute with (batch,
// channels, height, width), and inputs and outputs are converted to this order.
namespace gradsync::model {

// Returns cases with odd shapes, strides, paddings and blocks, which are small enough for central
// differences.
std::vector<FunctionCase> SmallVisionCases();
// Returns cases with shapes of a residual network, which are large enough for several threads.
std::vector<FunctionCase> LargeVisionCases();
// Returns small and large cases with the channel blocks of CUDA: 1 or all channels.
std::vector<FunctionCase> CudaVisionCases();

}  // namespace gradsync::model
