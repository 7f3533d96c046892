#ifndef GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_
#define GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_

#include <chrono>
#include <memory>
#include <string>

#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

namespace gradsync::comm {

// "2.28.9"; empty in a build without NCCL.
std::string NcclVersion();

struct NcclOptions {
  World world;
  std::chrono::milliseconds timeout{60000};
  // Ranks that are processes of one host may use the same GPU: NCCL is told that each is a host of its own,
  // so that they talk over sockets. For tests of function; says nothing about speed.
  bool share_gpu = false;
};

// Ranks that are processes or threads, each with a GPU of its own, over NCCL. `device` is that GPU.
//
// Collectives run one after the other on one stream beside the compute stream. Each starts after what the
// compute stream held when it was issued, and Work::Wait makes the compute stream wait for its end, so the
// host runs ahead. A collective keeps its tensors until Wait was called or the GPU has passed its end: what
// the device's allocator asks for. Intervals are from events on the communication stream, put on the host's
// clock by the anchor that was the last when the collective was issued (model/cuda_clock.h); every Barrier
// takes a new one.
//
// A sum's order is NCCL's: bitwise the same on all ranks, but not always the order of ranks.
//
// A thread watches for errors that NCCL reports late, and for a collective whose turn has come and that does
// not end within the timeout. Either aborts the communicator; whatever was unfinished, or comes later, fails
// with the first cause. Until a rank hears of it, by Wait, interval or Barrier, its compute stream goes on
// with undefined tensors. The destructor aborts what is in flight, and never waits for another rank longer
// than the timeout.
//
// Returns when all ranks are connected. Throws InvalidInput for bad options, a device that is no GPU, and in
// a build without NCCL; CollectiveError if ranks are missing or NCCL refuses.
std::unique_ptr<ProcessGroup> MakeNcclGroup(const NcclOptions& options, const model::DevicePtr& device);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_NCCL_NCCL_PROCESS_GROUP_H_
