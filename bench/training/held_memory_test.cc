#include "bench/training/held_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradsync::bench {
namespace {

using model::Tensor;

TEST(HeldMemoryTest, WhatTensorsShareCountsOnce) {
  const Tensor all = Tensor::Zeros(model::CpuDevice(), {100}, model::DType::kF32);
  const Tensor other = Tensor::Zeros(model::CpuDevice(), {10}, model::DType::kF32);
  EXPECT_EQ(DistinctBytes({}), 0);
  EXPECT_EQ(DistinctBytes(std::vector{all, other}), 440);
  // Within one another, the same twice, one after the other, overlapping, in any order.
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(10, {20}), all, all.Slice(90, {10})}), 400);
  EXPECT_EQ(DistinctBytes(std::vector{other, other}), 40);
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(50, {50}), all.Slice(0, {50})}), 400);
  EXPECT_EQ(DistinctBytes(std::vector{all.Slice(30, {40}), all.Slice(0, {40}), all.Slice(20, {5})}), 280);
}

}  // namespace
}  // namespace gradsync::bench
