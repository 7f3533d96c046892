#ifndef GRADSYNC_MODEL_KERNELS_REGRESSION_H_
#define GRADSYNC_MODEL_KERNELS_REGRESSION_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"

// What a linear layer with a bias and a loss of squares need beside a matrix product. T, the type of
// activations and their gradients, is float, double or BF16, which is computed in f32 and rounded once.
namespace gradsync::model::kernels::cpu {

// y (rows, d) = x (rows, d) + bias (d).
template <class T>
void AddBias(const Device& device, const T* x, const Wide<T>* bias, int64_t rows, int64_t d, T* y);

// dbias (d) = or += the sum of dy (rows, d) over its rows.
template <class T>
void BiasGrad(const Device& device, const T* dy, int64_t rows, int64_t d, Wide<T>* dbias, bool accumulate);

// *loss = the mean of (x - target)^2 over n elements.
template <class T>
void SquaredError(const Device& device, const T* x, const Wide<T>* target, int64_t n, Wide<T>* loss);

// dx = or += 2 (x - target) / n * *dloss.
template <class T>
void SquaredErrorGrad(const Device& device, const T* x, const Wide<T>* target, const Wide<T>* dloss,
                      int64_t n, T* dx, bool accumulate);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device.
namespace gradsync::model::kernels::cuda {

template <class T>
void AddBias(const Device& device, const T* x, const Wide<T>* bias, int64_t rows, int64_t d, T* y);

template <class T>
void BiasGrad(const Device& device, const T* dy, int64_t rows, int64_t d, Wide<T>* dbias, bool accumulate);

template <class T>
void SquaredError(const Device& device, const T* x, const Wide<T>* target, int64_t n, Wide<T>* loss);

template <class T>
void SquaredErrorGrad(const Device& device, const T* x, const Wide<T>* target, const Wide<T>* dloss,
                      int64_t n, T* dx, bool accumulate);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_REGRESSION_H_
