#pragma once

#include <vector>

#include "model/function_cases.h"

// Test cases for every operation of model/vision/vision_functions.h, like those of model/function_cases.h.
namespace gradsync::model {

// Returns cases with small shapes, for checks by central differences.
std::vector<FunctionCase> SmallVisionCases();
// Returns cases that are large enough for several threads, with shapes like those of a residual network.
std::vector<FunctionCase> LargeVisionCases();
// Returns small and large cases in the layouts that CUDA supports: channel blocks of 1 or of all channels.
std::vector<FunctionCase> CudaVisionCases();

}  // namespace gradsync::model
