// The suites of the CPU on CUDA.
#include "model/tensor/cuda_device.h"
#include "model/testing/training_suite.h"

namespace gradsync::model {
namespace {

DevicePtr NewDevice() { return std::make_shared<CudaDevice>(0); }

INSTANTIATE_TEST_SUITE_P(Cuda, TrainingTest, testing::ValuesIn(TrainingCases("cuda", NewDevice)),
                         TrainingCaseName);
INSTANTIATE_TEST_SUITE_P(Cuda, LearningTest, testing::ValuesIn(TrainingCases("cuda", NewDevice)),
                         TrainingCaseName);

}  // namespace
}  // namespace gradsync::model
