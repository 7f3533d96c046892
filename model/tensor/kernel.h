#pragma once

#include <string_view>

#include "model/base/error.h"
#include "model/tensor/device.h"
#include "model/tensor/dtype.h"

// A kernel is a struct that has the kernel's arguments as members, and a function for each type of device
// that it supports.
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
// Run(op, device, Scaled<T>{...}) calls the kernel's OnCpu(device) if `device` is the CPU, else
// OnCuda(device). Unless a kernel's comment says something else, its arrays are in the device's memory, dense
// and row-major. T, the type of activations and of their gradients, is float, double or BF16. With BF16, most
// kernels compute in f32 and round each result once. Wide<T> is float for BF16, else T.
namespace gradsync::model::kernels {

// kBuiltForCuda is true if this program was built with the CUDA libraries that Kernel::OnCuda needs. A kernel
// that also needs another library, such as cuDNN, specialises kBuiltForCuda, so that it is true only if that
// library was built in.
template <class Kernel>
inline constexpr bool kBuiltForCuda = GRADSYNC_HAVE_CUDA != 0;

// Runs a kernel. Throws InvalidInput, naming the operation `op`, if the device is a GPU and this program was
// built without the CUDA libraries that the kernel needs.
template <class Kernel>
void Run(std::string_view op, Device& device, const Kernel& kernel) {
  if (device.is_cpu()) return kernel.OnCpu(device);
  if constexpr (kBuiltForCuda<Kernel>) {
    kernel.OnCuda(device);
  } else {
    throw InvalidInput(Join(op, ": this program was built without the part of CUDA that this needs"));
  }
}

// Instantiates a kernel's function Body (OnCpu or OnCuda) for T = float, double and BF16. Use the macro in
// the file that defines Body, below the definition.
#define GRADSYNC_INSTANTIATE_KERNEL(Kernel, Body)    \
  template void Kernel<float>::Body(Device&) const;  \
  template void Kernel<double>::Body(Device&) const; \
  template void Kernel<BF16>::Body(Device&) const

}  // namespace gradsync::model::kernels
