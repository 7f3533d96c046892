#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "model/base/error.h"

namespace gradsync::model {

// bfloat16: the upper 16 bits of an f32. Conversion from f32 rounds to nearest, ties to even.
struct BF16 {
  uint16_t bits = 0;

  BF16() = default;
  explicit BF16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      // Sets a bit of the mantissa, because a NaN whose upper 16 bits have none would become infinity.
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kI64, kU8 };

constexpr size_t SizeOf(DType dtype) {
  constexpr size_t kBytes[] = {4, 8, 2, 4, 8, 1};
  return kBytes[static_cast<size_t>(dtype)];
}

constexpr std::string_view Name(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "i32", "i64", "u8"};
  return kNames[static_cast<size_t>(dtype)];
}

template <class T>
extern const DType kDTypeOf;  // defined only for the following types
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<BF16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kU8;

// The type in which most kernels compute with numbers of type T: float for BF16, else T. With bf16
// activations, a model's losses, the statistics of its normalisation layers and its parameters' values
// (Parameter::value()) are also float.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, BF16>, float, T>;

constexpr DType WideDType(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

// Calls fn.operator()<T>() with T = float for kF32 and T = double for kF64. Throws InvalidInput for any other
// dtype; `op` is the caller's name in the error message.
template <class Fn>
decltype(auto) DispatchFloat(DType dtype, std::string_view op, Fn&& fn) {
  if (dtype == DType::kF32) return fn.template operator()<float>();
  if (dtype == DType::kF64) return fn.template operator()<double>();
  throw InvalidInput(Join(op, ": dtype is ", Name(dtype), ", expected f32 or f64"));
}

// Calls fn.operator()<T>() with T = float for kF32, double for kF64 and BF16 for kBF16. Throws InvalidInput
// for any other dtype; `op` is the caller's name in the error message.
template <class Fn>
decltype(auto) DispatchAnyFloat(DType dtype, std::string_view op, Fn&& fn) {
  if (dtype == DType::kF32) return fn.template operator()<float>();
  if (dtype == DType::kF64) return fn.template operator()<double>();
  if (dtype == DType::kBF16) return fn.template operator()<BF16>();
  throw InvalidInput(Join(op, ": dtype is ", Name(dtype), ", expected f32, f64 or bf16"));
}

}  // namespace gradsync::model
