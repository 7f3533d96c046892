// Every strategy on CUDA: what it leaves to the streams' order is in order. nccl with two GPUs; gloo, which
// may share one.
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ddp/equivalence_suite.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::ddp {
namespace {

using Case = std::tuple<Tested, std::string, size_t>;  // strategy, backend, bucket bytes

class EquivalenceCudaTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceCudaTest, EqualsOneProcessOnTheWholeBatch) {
  const auto& [tested, backend, bucket_bytes] = GetParam();
  const comm::World world = {.size = 2, .local_size = 2};
  try {
    comm::CheckBackend(backend, {}, model::Device::Type::kCuda, world);
  } catch (const InvalidInput& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < 2; ++rank) {
    devices.push_back(std::make_shared<model::CudaDevice>(rank % model::CudaDeviceCount()));
  }
  CheckEquivalence(tested, bucket_bytes, backend, devices);
}

// Where operations name rows, which nobody asks for.
TEST(FewRowsCudaTest, EqualsOneProcessOnTheWholeBatch) {
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < 2; ++rank) devices.push_back(std::make_shared<model::CudaDevice>(0));
  const auto rows = [](int rank, int step, int use) {
    return use == 3 ? std::optional(std::vector<int32_t>{rank, 10 * step}) : std::nullopt;
  };
  CheckEquivalence({"core"}, 300000, "gloo", devices, {.rows = rows});
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return std::get<0>(info.param).name() + "_" + std::get<1>(info.param) + "_bucket" +
         std::to_string(std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(AllStrategies, EquivalenceCudaTest,
                         testing::Combine(testing::ValuesIn(AveragingStrategies()),
                                          testing::Values("nccl", "gloo"),
                                          testing::Values(size_t{4000}, size_t{300000}, size_t{25} << 20)),
                         CaseName);

}  // namespace
}  // namespace gradsync::ddp
