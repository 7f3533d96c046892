#ifndef GRADSYNC_MODEL_DTYPE_H_
#define GRADSYNC_MODEL_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/error.h"

namespace gradsync::model {

// bfloat16: the upper half of an f32. Conversion from f32 rounds to nearest, ties to even.
struct BF16 {
  uint16_t bits = 0;

  BF16() = default;
  explicit BF16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // A NaN must stay one when its low half is cut off.
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kI64, kU8 };

// Bytes of one element.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF64:
      return 8;
    case DType::kBF16:
      return 2;
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// "f32", "f64", "bf16", "i32", "i64", "u8".
constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;

// The type that numbers of type T are computed in: f32 for bf16, else T itself. Sums, statistics, losses and
// what belongs to parameters are kept in it; bf16 is for storing activations and what matrix products read.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<BF16> {
  using type = float;
};
template <class T>
using Wide = typename WideOf<T>::type;

constexpr DType WideDType(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

// Calls fn.operator()<T>() with the C++ type of f32 or f64.
// Throws InvalidInput for any other dtype; `op` names the caller in the message.
template <class Fn>
decltype(auto) DispatchFloat(DType dtype, std::string_view op, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn.template operator()<float>();
    case DType::kF64:
      return fn.template operator()<double>();
    default:
      throw InvalidInput(Join(op, ": dtype is ", Name(dtype), ", expected f32 or f64"));
  }
}

// The same with bf16 too.
template <class Fn>
decltype(auto) DispatchAnyFloat(DType dtype, std::string_view op, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn.template operator()<float>();
    case DType::kF64:
      return fn.template operator()<double>();
    case DType::kBF16:
      return fn.template operator()<BF16>();
    default:
      throw InvalidInput(Join(op, ": dtype is ", Name(dtype), ", expected f32, f64 or bf16"));
  }
}

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_DTYPE_H_
