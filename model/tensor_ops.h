#ifndef GRADSYNC_MODEL_TENSOR_OPS_H_
#define GRADSYNC_MODEL_TENSOR_OPS_H_

#include "model/tensor.h"

// Arithmetic on whole tensors of f32, f64 or bf16, on the tensors' device, outside of autograd. For another
// dtype they throw InvalidInput.
namespace gradsync::model {

// target += source. Throws InvalidInput if shape, dtype or device type differ.
void AddTo(const Tensor& source, const Tensor& target);

// tensor *= factor.
void Scale(const Tensor& tensor, double factor);

// Every element becomes `value`.
void Fill(const Tensor& tensor, double value);

// target (bf16) = source (f32), rounded to nearest. Throws InvalidInput for other dtypes, or if shape or
// device differ.
void Round(const Tensor& source, const Tensor& target);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_TENSOR_OPS_H_
