#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/tensor/tensor.h"

// Functions with which parity suites compare tensors.
namespace gradsync::model {

// Returns |actual - expected| / |expected| in the Euclidean norm; NaN if an element is NaN.
inline double RelativeError(const std::vector<double>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

// Returns the elements of a tensor of f32, f64 or bf16.
inline std::vector<double> ToDoubles(const Tensor& tensor) {
  std::vector<double> wide;
  if (tensor.dtype() == DType::kBF16) {
    for (const BF16 value : tensor.ToVector<BF16>()) wide.push_back(static_cast<double>(float(value)));
    return wide;
  }
  DispatchFloat(tensor.dtype(), "parity", [&]<class T>() {
    const std::vector<T> values = tensor.ToVector<T>();
    wide.assign(values.begin(), values.end());
  });
  return wide;
}

}  // namespace gradsync::model
