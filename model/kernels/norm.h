#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Declares kernels, for the CPU and for CUDA, of RMSNorm, which divides each row of x by its root mean
// square.
namespace gradsync::model::kernels {

// Computes y = x * r * weight for each row x, where r = 1 / sqrt(mean(x^2) + eps).
template <class T>
struct RmsNorm {
  const T* x;             // (rows, d)
  const Wide<T>* weight;  // (d)
  int64_t rows, d;
  double eps;
  T* y;        // (rows, d)
  Wide<T>* r;  // (rows)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of RmsNorm for its weight: dweight = the sum over all rows of dy * x * r, with the
// row's r = 1 / sqrt(mean(x^2) + eps).
template <class T>
struct RmsNormWeightGrad {
  const T* x;
  const Wide<T>* r;
  const T* dy;  // (rows, d)
  int64_t rows, d;
  Destination<Wide<T>*> dweight;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of RmsNorm for x: dx = r * (g - x * r^2 * mean(g * x)), where g = dy * weight and r =
// 1 / sqrt(mean(x^2) + eps) of the row.
template <class T>
struct RmsNormInputGrad {
  const T* x;
  const Wide<T>* weight;
  const Wide<T>* r;
  const T* dy;
  int64_t rows, d;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
