#pragma once

#include "model/destination.h"
#include "model/kernels/kernel.h"
#include "model/kernels/layouts.h"

namespace gradsync::model::kernels {

// y = x with the pair (2i, 2i + 1) of every head rotated by position * theta^(-2i / head_dim), or by the
// opposite angle if `inverse`, which is the gradient. The device keeps the angles' cosines and sines.
template <class T>
struct Rope {
  HeadShape shape;  // head_dim is even
  double theta;
  bool inverse;
  const T* x;
  Destination<T*> y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
