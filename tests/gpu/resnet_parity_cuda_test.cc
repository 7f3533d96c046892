#include "model/tensor/cuda_device.h"
#include "tests/resnet_parity_suite.h"

namespace gradsync::model {
namespace {

// One for all: loading the libraries under it takes a while. Never destroyed, as CUDA may go before statics
// do.
DevicePtr Gpu() {
  static const auto* const device = new DevicePtr(std::make_shared<CudaDevice>(0));
  return *device;
}

// In f32 cuDNN may take Winograd's algorithm, which costs a digit.
INSTANTIATE_TEST_SUITE_P(Cuda, ResNetParityTest,
                         testing::Values(ResNetParityCase{"f32", DType::kF32, Gpu, 1e-4},
                                         ResNetParityCase{"f64", DType::kF64, Gpu, 6e-8},
                                         ResNetParityCase{"bf16", DType::kBF16, Gpu, kToleranceBF16}),
                         ResNetParityCaseName);

}  // namespace
}  // namespace gradsync::model
