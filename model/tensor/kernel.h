#pragma once

#include <string_view>

#include "model/base/error.h"
#include "model/tensor/device.h"
#include "model/tensor/dtype.h"

// A kernel is a struct with its arguments, and with a body for each type of device.
//
//   template <class T>
//   struct Scaled {
//     const T* x;
//     double factor;
//     int64_t n;
//     Destination<T*> y;
//
//     void OnCpu(Device& device) const;   // in elementwise_cpu.cc
//     void OnCuda(Device& device) const;  // in elementwise_cuda.cu
//   };
//
// Run(op, device, Scaled<T>{...}) runs the body for the device. Arrays are in the device's memory, dense and
// row-major. Unless a kernel says otherwise, T, the type of activations and their gradients, is float, double
// or BF16. BF16 is computed in f32 and rounded once. Wide<T> is the type in which T is computed.
namespace gradsync::model::kernels {

// True if this program has the kernel's body for CUDA. //third_party:cuda_rules.bzl defines the parts of CUDA
// in the build. A kernel that needs more than the CUDA runtime specialises this variable after its
// declaration.
template <class Kernel>
inline constexpr bool kBuiltForCuda = GRADSYNC_HAVE_CUDA != 0;

// Throws InvalidInput, naming the operation `op`, if the device is a GPU and the build lacks the part of CUDA
// that the kernel needs.
template <class Kernel>
void Run(std::string_view op, Device& device, const Kernel& kernel) {
  if (device.is_cpu()) return kernel.OnCpu(device);
  if constexpr (kBuiltForCuda<Kernel>) {
    kernel.OnCuda(device);
  } else {
    throw InvalidInput(Join(op, ": this program was built without the part of CUDA that this needs"));
  }
}

// Instantiates a body, OnCpu or OnCuda, for every T. Put this macro after the body.
#define GRADSYNC_INSTANTIATE_KERNEL(Kernel, Body)    \
  template void Kernel<float>::Body(Device&) const;  \
  template void Kernel<double>::Body(Device&) const; \
  template void Kernel<BF16>::Body(Device&) const

}  // namespace gradsync::model::kernels
