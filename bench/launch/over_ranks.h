#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "model/tensor/device.h"
#include "model/tensor/tensor.h"

// Functions that exchange numbers and texts between the ranks of a process group. All ranks must call these
// functions in the same order, and pass equally many numbers.
namespace gradsync::bench {

// Returns, on every rank, the sum (or the mean, maximum or minimum, as `op` says) over all ranks of each
// element of `numbers`.
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

// Returns, on every rank, the vectors `numbers` of all ranks, concatenated in the order of ranks.
template <class T>
std::vector<T> GatherOverRanks(const std::vector<T>& numbers, comm::ProcessGroup& group,
                               const model::DevicePtr& device) {
  const auto own = model::Tensor::From<T>(device, {std::ssize(numbers)}, numbers);
  const model::Tensor all = model::Tensor::Empty(device, {group.size() * own.numel()}, own.dtype());
  group.AllGather(own, all).Wait();
  return all.ToVector<T>();
}

// Returns rank 0's `text`, of any length, on every rank. The texts of the other ranks are ignored.
std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text);

// Returns the number of ranks whose `text` equals this rank's `text`, this rank included.
int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text);

// Returns the number of ranks whose GPU has the same UUID as this rank's GPU, this rank included. Returns 0
// if this rank computes on the CPU.
int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device);

}  // namespace gradsync::bench
