#include "model/tensor/cuda_device.h"
#include "tests/transformer_parity_suite.h"

namespace gradsync::model {
namespace {

// One for all: loading the libraries under it takes a while. Never destroyed, as CUDA may go before statics
// do.
DevicePtr Gpu() {
  static const auto* const device = new DevicePtr(std::make_shared<CudaDevice>(0));
  return *device;
}

INSTANTIATE_TEST_SUITE_P(Cuda, TransformerParityTest,
                         testing::Values(ParityCase{"f32", DType::kF32, Gpu, 1e-5},
                                         ParityCase{"f64", DType::kF64, Gpu, 1e-12},
                                         ParityCase{"bf16", DType::kBF16, Gpu, kToleranceBF16}),
                         ParityCaseName);

}  // namespace
}  // namespace gradsync::model
