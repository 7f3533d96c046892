#ifndef GRADSYNC_MODEL_VISION_CASES_H_
#define GRADSYNC_MODEL_VISION_CASES_H_

#include <vector>

#include "model/function_cases.h"

// Every operation of model/vision_functions.h on a range of shapes, as model/function_cases.h has them for
// the transformer's. The plain implementations know nothing of channel blocks: they work on (batch, channels,
// height, width), and what goes in and comes out is brought into that order. For tests.
namespace gradsync::model {

// Odd shapes, strides, paddings and blocks, small enough for central differences.
std::vector<FunctionCase> SmallVisionCases();
// Shapes like a residual network's, shared out to several threads.
std::vector<FunctionCase> LargeVisionCases();
// Both as on CUDA: with channels in blocks of 1 or all.
std::vector<FunctionCase> CudaVisionCases();

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_VISION_CASES_H_
