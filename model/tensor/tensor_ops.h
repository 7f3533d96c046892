#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/tensor/destination.h"
#include "model/tensor/tensor.h"

// Arithmetic on whole tensors of f32, f64 or bf16, on the tensors' device, without autograd. Throws
// InvalidInput for another dtype.
namespace gradsync::model {

// Computes target += source. Throws InvalidInput if shape, dtype or device type differ.
void AddTo(const Tensor& source, const Tensor& target);

// Writes source to its destination, by a copy or an addition. Throws like CopyFrom and AddTo.
void Store(const Tensor& source, const Destination<Tensor>& to);

// Computes tensor *= factor.
void Scale(const Tensor& tensor, double factor);

// Returns the sum of squares of all elements of all tensors, in f64. The tensors must be on one device. The
// order of additions does not depend on the number of threads. The host waits once for the result.
double SquaredNorm(std::span<const Tensor> tensors);
double SquaredNorm(const Tensor& tensor);

void Fill(const Tensor& tensor, double value);

// Converts source to target. One is f32 and the other bf16; f32 is rounded to nearest. Throws InvalidInput
// for other dtypes, or if shape or device differ.
void Cast(const Tensor& source, const Tensor& target);

// Returns the flat index of the first element that is NaN or infinite; nullopt if there is none. Copies all
// elements to the host: for checks, not for training.
std::optional<int64_t> FindNotFinite(const Tensor& tensor);

}  // namespace gradsync::model
