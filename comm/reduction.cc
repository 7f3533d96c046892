#include "comm/reduction.h"

#include "model/error.h"
#include "model/kernels/vector.h"

namespace gradsync::comm {
namespace {

using model::DType;
namespace cpu = model::kernels::cpu;

template <class T, void (*Kernel)(const T*, T*, int64_t)>
void Untyped(const void* x, void* y, int64_t n) {
  Kernel(static_cast<const T*>(x), static_cast<T*>(y), n);
}

template <class T>
Combine Select(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return &Untyped<T, cpu::Add<T>>;
    case ReduceOp::kMax:
      return &Untyped<T, cpu::Max<T>>;
    case ReduceOp::kMin:
      return &Untyped<T, cpu::Min<T>>;
  }
  throw InvalidInput("unknown reduction");
}

}  // namespace

Combine CombineFunction(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kF32:
      return Select<float>(op);
    case DType::kF64:
      return Select<double>(op);
    case DType::kBF16:
      return Select<model::BF16>(op);
    case DType::kI32:
      return Select<int32_t>(op);
    case DType::kI64:
      return Select<int64_t>(op);
    case DType::kU8:
      return Select<uint8_t>(op);
  }
  throw InvalidInput("unknown dtype");
}

void Finish(DType dtype, ReduceOp op, int size, void* y, int64_t n) {
  if (op != ReduceOp::kMean || size == 1) return;
  const double factor = 1.0 / size;
  switch (dtype) {
    case DType::kF32:
      return cpu::Scale(static_cast<float*>(y), factor, n);
    case DType::kF64:
      return cpu::Scale(static_cast<double*>(y), factor, n);
    case DType::kBF16:
      return cpu::Scale(static_cast<model::BF16*>(y), factor, n);
    default:
      throw InvalidInput(Join("mean of ", Name(dtype), ", expected f32, f64 or bf16"));
  }
}

}  // namespace gradsync::comm
