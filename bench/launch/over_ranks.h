#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "model/device.h"
#include "model/tensor.h"

// Numbers and texts of all ranks of a group. All ranks must call these functions, with equally many numbers.
namespace gradsync::bench {

// Each number, reduced over ranks.
template <class T>
std::vector<T> ReduceOverRanks(const std::vector<T>& numbers, comm::ReduceOp op, comm::ProcessGroup& group,
                               const model::DevicePtr& device) {
  const auto tensor = model::Tensor::From<T>(device, {std::ssize(numbers)}, numbers);
  group.AllReduce(tensor, op).Wait();
  return tensor.template ToVector<T>();
}
template <class T>
T ReduceOverRanks(T number, comm::ReduceOp op, comm::ProcessGroup& group, const model::DevicePtr& device) {
  return ReduceOverRanks(std::vector<T>{number}, op, group, device).front();
}

// The numbers of all ranks, in rank order.
template <class T>
std::vector<T> GatherOverRanks(const std::vector<T>& numbers, comm::ProcessGroup& group,
                               const model::DevicePtr& device) {
  const auto own = model::Tensor::From<T>(device, {std::ssize(numbers)}, numbers);
  const model::Tensor all = model::Tensor::Empty(device, {group.size() * own.numel()}, own.dtype());
  group.AllGather(own, all).Wait();
  return all.ToVector<T>();
}

// Rank 0's text, on every rank. At most 63 bytes.
std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text);

// Number of ranks whose text equals this rank's, including this rank.
int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text);

// Number of ranks that compute on this rank's GPU, whatever the launcher and the numbers of GPUs; 0 on the
// CPU.
int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device);

}  // namespace gradsync::bench
