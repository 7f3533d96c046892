#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "model/tensor/cuda_device.h"
#include "model/transformer/test_transformer.h"
#include "model/transformer/transformer.h"

namespace gradsync::model {
namespace {

TEST(TransformerCuda, StartsFromTheSameWeights) {
  const TransformerConfig config = TiledTransformer(64);
  const Transformer there(config, std::make_shared<CudaDevice>(0), DType::kF32, 7);
  const Transformer here(config, CpuDevice(), DType::kF32, 7);
  for (size_t i = 0; i < here.parameters().size(); ++i) {
    EXPECT_EQ(there.parameters()[i]->value().ToVector<float>(),
              here.parameters()[i]->value().ToVector<float>())
        << here.parameters()[i]->name();
  }
}

}  // namespace
}  // namespace gradsync::model
