#include "comm/testing/conformance_suite.h"
#include "model/tensor/cuda_device.h"

// What one GPU suffices for: gloo, whose ranks may share it, and nccl alone.
namespace gradsync::comm {
namespace {

model::DevicePtr FirstGpu(int) { return std::make_shared<model::CudaDevice>(0); }

INSTANTIATE_TEST_SUITE_P(OneGpu, ConformanceTest,
                         testing::Values(ConformanceParam{"nccl", 1, FirstGpu},
                                         ConformanceParam{"gloo", 1, FirstGpu},
                                         ConformanceParam{"gloo", 2, FirstGpu},
                                         ConformanceParam{"gloo", 3, FirstGpu}),
                         ConformanceName);

}  // namespace
}  // namespace gradsync::comm
