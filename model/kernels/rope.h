#pragma once

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// Computes y from x by rotating the pair (2i, 2i + 1) of every head by the angle position * theta^(-2i /
// head_dim), or, if `inverse`, by the opposite angle, which gives the gradient. The cosines and
// sines of the angles are computed once, and kept in the memory of the device.
template <class T>
struct Rope {
  HeadShape shape;  // head_dim must be even
  double theta;
  bool inverse;
  const T* x;
  Destination<T*> y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
