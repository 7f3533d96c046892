#pragma once

#include <vector>

#include "model/function_cases.h"

// Every operation of model/vision_functions.h on a range of shapes, like model/function_cases.h. The plain
// implementations do not know channel blocks: they work on (batch, channels, height, width), and inputs and
// outputs are converted to this order. For tests.
namespace gradsync::model {

// Odd shapes, strides, paddings and blocks, small enough for central differences.
std::vector<FunctionCase> SmallVisionCases();
// Shapes like a residual network's, large enough for several threads.
std::vector<FunctionCase> LargeVisionCases();
// Both with the channel blocks of CUDA: 1 or all channels.
std::vector<FunctionCase> CudaVisionCases();

}  // namespace gradsync::model
