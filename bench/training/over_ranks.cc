#include "bench/training/over_ranks.h"

#include "model/tensor.h"

namespace gradsync::bench {
namespace {

model::Tensor TensorOf(const std::vector<int64_t>& numbers, const model::DevicePtr& device) {
  return model::Tensor::From<int64_t>(device, {static_cast<int64_t>(numbers.size())}, numbers);
}

}  // namespace

std::vector<int64_t> MaxOverRanks(const std::vector<int64_t>& numbers, comm::ProcessGroup& group,
                                  const model::DevicePtr& device) {
  const model::Tensor tensor = TensorOf(numbers, device);
  group.AllReduce(tensor, comm::ReduceOp::kMax).Wait();
  return tensor.ToVector<int64_t>();
}

std::vector<int64_t> GatherOverRanks(const std::vector<int64_t>& numbers, comm::ProcessGroup& group,
                                     const model::DevicePtr& device) {
  const model::Tensor own = TensorOf(numbers, device);
  const model::Tensor all = model::Tensor::Empty(device, {group.size() * own.numel()}, model::DType::kI64);
  group.AllGather(own, all).Wait();
  return all.ToVector<int64_t>();
}

}  // namespace gradsync::bench
