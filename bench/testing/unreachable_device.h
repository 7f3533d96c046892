#pragma once

#include <memory>

#include "comm/process_group.h"
#include "model/device.h"

// For tests of what is done with tensors of a GPU, without one.
namespace gradsync::bench {

// Calls itself a GPU. The process may not touch its memory, which ends at the first attempt, except through
// Copy and Zero. It computes nothing: kernels must not be called.
model::DevicePtr UnreachableDevice();

// A world of one rank on any device: collectives leave tensors as they are.
std::unique_ptr<comm::ProcessGroup> LoneGroup();

}  // namespace gradsync::bench
