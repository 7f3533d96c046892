#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Declares kernels that scale, fill, convert and transpose arrays, add biases, sum squares, and compute
// SwiGLU. If Destination::accumulate is true for a result, the kernel adds the result to Destination::data
// instead of overwriting the old numbers.
namespace gradsync::model::kernels {

// Computes y = x * factor. x and y may be the same array.
template <class T>
struct Scaled {
  const T* x;
  double factor;
  int64_t n;
  Destination<T*> y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

template <class T>
struct Fill {
  double value;
  int64_t n;
  T* y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Converts the n numbers of x from float to BF16, rounded to nearest, or from BF16 to float.
template <class From, class To>
struct Cast {
  const From* x;
  int64_t n;
  Destination<To*> y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Transposes `batch` matrices on a GPU: y[i, col, row] = x[i, row, col]. From, the type of x, and To, the
// type of y, are float or BF16, but not both BF16. SwapAxes has no OnCpu.
template <class From, class To>
struct SwapAxes {
  const From* x;  // (batch, rows, cols)
  int64_t batch, rows, cols;
  Destination<To*> y;  // (batch, cols, rows)

  void OnCuda(Device& device) const;
};

// Computes y = x + bias.
template <class T>
struct AddBias {
  const T* x;           // (rows, d)
  const Wide<T>* bias;  // (d)
  int64_t rows, d;
  T* y;  // (rows, d)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes dbias, the gradient of AddBias's input `bias`: the sum of the rows of dy, the gradient of y.
template <class T>
struct BiasGrad {
  const T* dy;  // (rows, d)
  int64_t rows, d;
  Destination<Wide<T>*> dbias;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// The kernel SquaredSums divides the array x into pieces of kSumPiece consecutive elements; the last piece
// may be shorter. The kernel sets sums[i] to the sum of squares of piece i, computed in f64.
inline constexpr int64_t kSumPiece = int64_t{1} << 16;
inline int64_t NumPieces(int64_t n) { return (n + kSumPiece - 1) / kSumPiece; }
template <class T>
struct SquaredSums {
  const T* x;
  int64_t n;
  double* sums;  // (NumPieces(n))

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes y = gate * s * up, where s = 1 / (1 + exp(-gate)).
template <class T>
struct SwiGlu {
  const T *gate, *up;
  int64_t n;
  T* y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradients of SwiGlu's inputs gate and up from dy, the gradient of its output. With s = 1 / (1
// + exp(-gate)), the gradients are dgate = dy * up * s * (1 + gate * (1 - s)) and dup = dy * gate * s.
template <class T>
struct SwiGluGrad {
  const T *gate, *up, *dy;
  int64_t n;
  Destination<T*> dgate, dup;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
