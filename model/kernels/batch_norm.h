#ifndef GRADSYNC_MODEL_KERNELS_BATCH_NORM_H_
#define GRADSYNC_MODEL_KERNELS_BATCH_NORM_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"
#include "model/kernels/activation.h"
#include "model/kernels/target.h"

// Batch normalisation with the statistics of the batch, arXiv:1502.03167, together with what follows it in a
// residual network, so that the activation is written once:
//
//   y = act((x - mean) * r * weight + bias + residual),  r = 1 / sqrt(variance + eps)
//
// where mean and variance (the biased one) of a channel are over all its pixels in all images, and act is the
// identity or max(0, .). Each channel is computed by one thread, so that no result depends on their number.
// T, the type of activations and their gradients, is float, double or BF16, which is computed in f32 and
// rounded once; of BF16 all that belongs to channels is f32. Statistics are combined in f64.
namespace gradsync::model::kernels {

template <class T>
struct BatchNormInputs {
  const T* x;             // the shape's elements
  const Wide<T>* weight;  // (channels)
  const Wide<T>* bias;    // (channels)
  const T* residual;      // like x, or null for none
  bool relu;
};

template <class T>
struct BatchNormGrads {
  Target<T> dx;
  Target<Wide<T>> dweight, dbias;
  Target<T> dresidual;
};

namespace cpu {

// Fills y (like x), and (channels) each of mean, r, and the unbiased variance. A channel has at least two
// pixels.
template <class T>
void BatchNorm(Device& device, const ActivationShape& shape, const BatchNormInputs<T>& in, double eps, T* y,
               Wide<T>* mean, Wide<T>* r, Wide<T>* unbiased_variance);

// average += momentum * (x - average), elementwise. On the calling thread. T is float or double.
template <class T>
void MoveAverage(const Device& device, const T* x, int64_t n, double momentum, T* average);

// ++*count.
void AddOne(const Device& device, int64_t* count);

// Gradients, mean and r being functions of x. With g = dy where act let its input through and 0 elsewhere,
// x' = (x - mean) * r, and means over a channel:
//
//   dbias = sum of g    dweight = sum of g * x'    dresidual = g
//   dx = weight * r * (g - mean of g - x' * mean of (g * x'))
//
// With a relu and a residual y is the forward result, else null; in.residual is not read.
template <class T>
void BatchNormGrad(Device& device, const ActivationShape& shape, const BatchNormInputs<T>& in,
                   const Wide<T>* mean, const Wide<T>* r, const T* y, const T* dy,
                   const BatchNormGrads<T>& grads);

}  // namespace cpu

// The same on a CUDA device.
namespace cuda {

template <class T>
void BatchNorm(Device& device, const ActivationShape& shape, const BatchNormInputs<T>& in, double eps, T* y,
               Wide<T>* mean, Wide<T>* r, Wide<T>* unbiased_variance);

template <class T>
void MoveAverage(const Device& device, const T* x, int64_t n, double momentum, T* average);

void AddOne(const Device& device, int64_t* count);

template <class T>
void BatchNormGrad(Device& device, const ActivationShape& shape, const BatchNormInputs<T>& in,
                   const Wide<T>* mean, const Wide<T>* r, const T* y, const T* dy,
                   const BatchNormGrads<T>& grads);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_BATCH_NORM_H_
