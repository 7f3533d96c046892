#pragma once

#include <cstdint>

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Declares kernels of batch normalisation (arXiv:1502.03167) in training, with the mean and the variance of
// the batch. The same pass over memory also adds the residual and applies the activation function of a
// residual network:
//
//   y = act((x - mean) * r * weight + bias + residual),  r = 1 / sqrt(variance + eps)
//
// mean and (biased) variance of a channel are computed over its pixels in all images of the batch. If `relu`
// is true, act(z) is max(0, z), and NaN if z is NaN; else act(z) is z. On the CPU, results do not depend on
// the number of threads.
namespace gradsync::model::kernels {

template <class T>
struct BatchNormInputs {
  const T* x;             // the shape's elements
  const Wide<T>* weight;  // (channels)
  const Wide<T>* bias;    // (channels)
  const T* residual;      // like x, or null if there is no residual
  bool relu;
};

// The forward pass. Computes y, and each channel's mean and r = 1 / sqrt(variance + eps), which BatchNormGrad
// reads. Updates the running mean and variance, and counts the batches:
//
//   running_mean += momentum * (mean - running_mean)    ++num_batches_tracked
//   running_var += momentum * (unbiased variance - running_var)
//
// A channel must have at least two pixels in the batch (batch * height * width >= 2), because the unbiased
// variance divides by the number of these pixels minus 1.
template <class T>
struct BatchNorm {
  ActivationShape shape;
  BatchNormInputs<T> in;
  double eps, momentum;
  T* y;                                // like x
  Wide<T>*mean, *r;                    // (channels)
  Wide<T>*running_mean, *running_var;  // (channels)
  int64_t* num_batches_tracked;        // one element

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradients of BatchNorm's inputs bias, weight, residual and x, each only if its destination is
// not null. With a relu, g is 0 where y <= 0, and dy elsewhere, also where y is NaN; without a relu, g = dy.
// x' is (x - mean) * r, and sums and means are over the pixels of a channel:
//
//   dbias = sum of g    dweight = sum of g * x'    dresidual = g
//   dx = weight * r * (g - mean of g - x' * mean of (g * x'))
template <class T>
struct BatchNormGrad {
  ActivationShape shape;
  BatchNormInputs<T> in;  // in.residual is not read
  const Wide<T>*mean, *r;
  const T* y;  // result of forward if there are a relu and a residual, else null
  const T* dy;
  Destination<T*> dx;
  Destination<Wide<T>*> dweight, dbias;
  Destination<T*> dresidual;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
