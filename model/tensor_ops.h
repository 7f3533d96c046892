#ifndef GRADSYNC_MODEL_TENSOR_OPS_H_
#define GRADSYNC_MODEL_TENSOR_OPS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "model/destination.h"
#include "model/tensor.h"

// Arithmetic on whole tensors of f32, f64 or bf16, on the tensors' device, outside of autograd. For another
// dtype they throw InvalidInput.
namespace gradsync::model {

// target += source. Throws InvalidInput if shape, dtype or device type differ.
void AddTo(const Tensor& source, const Tensor& target);

// Brings source to where it belongs, by a copy or an addition. Throws InvalidInput as these do.
void Store(const Tensor& source, const Destination<Tensor>& to);

// tensor *= factor.
void Scale(const Tensor& tensor, double factor);

// The sum of squares of all elements of all tensors, which lie on one device, in f64. It is added up in one
// order, whatever the number of threads. The host waits for it once.
double SquaredNorm(std::span<const Tensor> tensors);
double SquaredNorm(const Tensor& tensor);

// Every element becomes `value`.
void Fill(const Tensor& tensor, double value);

// target = source, one of them f32 and the other bf16, to which f32 is rounded to nearest. Throws
// InvalidInput for other dtypes, or if shape or device differ.
void Cast(const Tensor& source, const Tensor& target);

// The flat index of the first element that is NaN or infinite; nullopt if there is none. Copies all of them
// to the host: for checks, not for training.
std::optional<int64_t> FindNotFinite(const Tensor& tensor);

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_TENSOR_OPS_H_
