// Every strategy on the CPU.
#include <string>
#include <tuple>

#include "comm/local_process_group.h"
#include "ddp/equivalence_suite.h"

namespace gradsync::ddp {
namespace {

using Case =
    std::tuple<std::string, std::string, int, size_t>;  // strategy, backend, world size, bucket bytes

class EquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(EquivalenceTest, EqualsOneProcessOnTheWholeBatch) {
  const auto& [name, backend, world_size, bucket_bytes] = GetParam();
  std::vector<model::DevicePtr> devices;
  for (int rank = 0; rank < world_size; ++rank) devices.push_back(model::CpuDevice());
  CheckEquivalence(name, bucket_bytes, backend, devices);
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [name, backend, world_size, bucket_bytes] = info.param;
  return Join(name, "_", backend, world_size, "_bucket", bucket_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    AllStrategies, EquivalenceTest,
    testing::Combine(testing::Values("naive", "flat", "overlap", "bucketed_sync", "bucketed_async", "core"),
                     testing::Values("local", "shm"), testing::Values(1, 2, 3, 4),
                     testing::Values(size_t{1}, size_t{4000}, size_t{300000}, size_t{25} << 20)),
    CaseName);

// The list above must not fall behind the factory's; `none` is the one that does not average.
TEST(EquivalenceListTest, CoversEveryStrategy) {
  EXPECT_EQ(StrategyNames(), (std::vector<std::string>{"none", "naive", "flat", "overlap", "bucketed_sync",
                                                       "bucketed_async", "core"}));
}

TEST(NoneTest, LeavesEveryRankItsOwnGradient) {
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups = comm::MakeLocalGroups(2);
  const TestModel model(kNumels);
  const auto strategy = MakeStrategy("none", {.params = model.params(), .group = *groups[1], .options = {}});
  model::Backward(model.Loss(1, 0), model.params(), [&](model::Parameter& p) { strategy->OnGradReady(p); });
  strategy->Finish();
  EXPECT_EQ(model.params()[0]->grad().ToVector<float>()[2], TestModel::DataAt(1, 0, 0, 2));
}

}  // namespace
}  // namespace gradsync::ddp
