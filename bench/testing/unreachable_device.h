#pragma once

#include <memory>

#include "comm/process_group.h"
#include "model/tensor/device.h"

// Helpers for tests of code that handles tensors of a GPU, on machines without a GPU.
namespace gradsync::bench {

// Returns a device that claims to be a GPU. A process that accesses the memory of this device ends with a
// fault, except through Copy and Zero. Kernels must not be called.
model::DevicePtr UnreachableDevice();

// Returns the group of a world of one rank on any device. Its collectives do not change tensors.
std::unique_ptr<comm::ProcessGroup> LoneGroup();

}  // namespace gradsync::bench
