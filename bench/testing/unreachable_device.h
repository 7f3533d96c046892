#pragma once

#include <memory>

#include "comm/process_group.h"
#include "model/tensor/device.h"

// Functions that make a device and a process group for tests of code that handles tensors of a GPU. The
// device only claims to be a GPU, so the tests also run on machines without a GPU.
namespace gradsync::bench {

// Returns a device that claims to be a GPU, whose tensors lie in memory that the CPU must not touch. Code
// that reads or writes this memory, other than by the device's Copy and Zero, ends the process with a
// segmentation fault. So a test notices code that treats a GPU's memory as the host's. The device has no
// kernels, so it cannot compute.
model::DevicePtr UnreachableDevice();

// Returns a process group of one rank, for tensors of a device named "cuda:0", such as the device that
// UnreachableDevice() returns. The group's collectives copy their input to their output, if they have an
// output, and do nothing else.
std::unique_ptr<comm::ProcessGroup> LoneGroup();

}  // namespace gradsync::bench
