#ifndef GRADSYNC_MODEL_TENSOR_OPS_H_
#define GRADSYNC_MODEL_TENSOR_OPS_H_

#include "model/tensor.h"

// Arithmetic on whole tensors, on the tensors' device, outside of autograd.
namespace gradsync::model {

// target += source. Throws InvalidInput if shape, dtype or device type differ.
void AddTo(const Tensor& source, const Tensor& target);

// tensor *= factor, for f32 or f64.
void Scale(const Tensor& tensor, double factor);

// Every element of a tensor of f32 or f64 becomes `value`.
void Fill(const Tensor& tensor, double value);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_TENSOR_OPS_H_
