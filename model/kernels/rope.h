#pragma once

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// Rotary position embedding: computes y from x by rotating the pair of elements (2i, 2i + 1) of every head by
// the angle position * theta^(-2i / head_dim). If `inverse`, rotates by the negative angle, which turns the
// gradient of y into the gradient of x. Cosines and sines come from a table in the device's memory
// (rope_table.h), which is kept for later calls.
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
