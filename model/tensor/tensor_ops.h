#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/tensor/destination.h"
#include "model/tensor/tensor.h"

// Functions for arithmetic with whole tensors of f32, f64 or bf16. The functions record nothing for autograd.
// The functions throw InvalidInput for a tensor that is not f32, f64 or bf16, with two exceptions. Store can
// copy any dtype, and SquaredNorm returns 0 if all its tensors are empty, whatever their dtypes.
namespace gradsync::model {

// Computes target += source. Throws InvalidInput if the shapes, dtypes or types of device differ.
void AddTo(const Tensor& source, const Tensor& target);

// Adds `source` to to.data if to.accumulate is true, else copies `source` to to.data. Throws InvalidInput if
// the shapes or dtypes differ. If to.accumulate is true, also throws InvalidInput if the types of device
// differ.
void Store(const Tensor& source, const Destination<Tensor>& to);

void Scale(const Tensor& tensor, double factor);

// Returns the sum of squares of all elements of all tensors, computed in f64. The tensors must be on one
// device. The result does not depend on the number of threads. The call waits until the device has computed
// the result.
double SquaredNorm(std::span<const Tensor> tensors);
double SquaredNorm(const Tensor& tensor);

void Fill(const Tensor& tensor, double value);

// Converts f32 to bf16, rounded to nearest, or bf16 to f32. Throws InvalidInput for other dtypes, or if the
// shapes or the Device objects differ.
void Cast(const Tensor& source, const Tensor& target);

// Returns the flat index of the first element of `tensor` that is NaN or infinite; nullopt if there is none.
// FindNotFinite copies all elements to the CPU, so it is for checks, not for training.
std::optional<int64_t> FindNotFinite(const Tensor& tensor);

}  // namespace gradsync::model
