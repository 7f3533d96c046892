#ifndef GRADSYNC_MODEL_KERNELS_NORM_H_
#define GRADSYNC_MODEL_KERNELS_NORM_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"

// Root mean square normalisation of rows: y = x * r * weight, where r = 1 / sqrt(mean(x^2) + eps).
// T is float, double or BF16; weights and the numbers r are in what T is computed in.
namespace gradsync::model::kernels::cpu {

template <class T>
void RmsNorm(const Device& device, const T* x,  // (rows, d)
             const Wide<T>* weight,             // (d)
             int64_t rows, int64_t d, double eps,
             T* y,         // (rows, d)
             Wide<T>* r);  // (rows)

// dweight (d) = or += the sum over rows of dy * x * r.
template <class T>
void RmsNormWeightGrad(const Device& device, const T* x, const Wide<T>* r, const T* dy, int64_t rows,
                       int64_t d, Wide<T>* dweight, bool accumulate);

// dx (rows, d) = or += r * (g - x * r^2 * mean(g * x)), where g = dy * weight.
template <class T>
void RmsNormInputGrad(const Device& device, const T* x, const Wide<T>* weight, const Wide<T>* r, const T* dy,
                      int64_t rows, int64_t d, T* dx, bool accumulate);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device.
namespace gradsync::model::kernels::cuda {

template <class T>
void RmsNorm(const Device& device, const T* x, const Wide<T>* weight, int64_t rows, int64_t d, double eps,
             T* y, Wide<T>* r);

template <class T>
void RmsNormWeightGrad(const Device& device, const T* x, const Wide<T>* r, const T* dy, int64_t rows,
                       int64_t d, Wide<T>* dweight, bool accumulate);

template <class T>
void RmsNormInputGrad(const Device& device, const T* x, const Wide<T>* weight, const Wide<T>* r, const T* dy,
                      int64_t rows, int64_t d, T* dx, bool accumulate);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_NORM_H_
