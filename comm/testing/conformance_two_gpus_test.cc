#include "comm/testing/conformance_suite.h"
#include "model/tensor/cuda_device.h"

// nccl between ranks with a GPU each. The sum of two has only one order, so it is that of the ranks.
namespace gradsync::comm {
namespace {

model::DevicePtr OwnGpu(int rank) { return std::make_shared<model::CudaDevice>(rank); }

INSTANTIATE_TEST_SUITE_P(TwoGpus, ConformanceTest, testing::Values(ConformanceParam{"nccl", 2, OwnGpu}),
                         ConformanceName);

}  // namespace
}  // namespace gradsync::comm
