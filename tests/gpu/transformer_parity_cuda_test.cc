#include "model/cuda_device.h"
#include "tests/transformer_parity_suite.h"

namespace gradsync::model {
namespace {

DevicePtr Gpu() { return std::make_shared<CudaDevice>(0); }

INSTANTIATE_TEST_SUITE_P(Cuda, TransformerParityTest,
                         testing::Values(ParityCase{"f32", DType::kF32, Gpu, 1e-5},
                                         ParityCase{"f64", DType::kF64, Gpu, 1e-12}),
                         ParityCaseName);

}  // namespace
}  // namespace gradsync::model
