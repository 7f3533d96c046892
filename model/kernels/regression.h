#ifndef GRADSYNC_MODEL_KERNELS_REGRESSION_H_
#define GRADSYNC_MODEL_KERNELS_REGRESSION_H_

#include <cstdint>

#include "model/destination.h"
#include "model/kernels/kernel.h"

// What a linear layer with a bias and a loss of squares need beside a matrix product.
namespace gradsync::model::kernels {

// y = x + bias.
template <class T>
struct AddBias {
  const T* x;           // (rows, d)
  const Wide<T>* bias;  // (d)
  int64_t rows, d;
  T* y;  // (rows, d)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// dbias = the sum of dy over its rows.
template <class T>
struct BiasGrad {
  const T* dy;  // (rows, d)
  int64_t rows, d;
  Destination<Wide<T>*> dbias;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// loss = the mean of (x - target)^2 over n elements.
template <class T>
struct SquaredError {
  const T* x;
  const Wide<T>* target;
  int64_t n;
  Wide<T>* loss;  // one

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// dx = 2 (x - target) / n * dloss.
template <class T>
struct SquaredErrorGrad {
  const T* x;
  const Wide<T>* target;
  const Wide<T>* dloss;  // one
  int64_t n;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_REGRESSION_H_
