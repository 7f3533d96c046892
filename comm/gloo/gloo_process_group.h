#ifndef GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_
#define GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_

#include <chrono>
#include <memory>
#include <string>

#include "comm/gloo/gloo_collectives.h"
#include "comm/queue/request_queue.h"
#include "comm/rendezvous/world.h"
#include "model/cuda_device.h"

namespace gradsync::comm {

struct GlooOptions {
  World world;
  std::chrono::milliseconds timeout{60000};
  int num_threads = 2;
  std::string interface_or_address;
  GlooTuning tuning;
  // All-reduces by gloo's ring instead of our algorithms: backend `gloo_own` (gloo_own.h).
  bool own_algorithms = false;
  // Where tensors are: a GPU, or null for the CPU.
  std::shared_ptr<model::CudaDevice> gpu = nullptr;
  // The first cause of the larger group that this one is a part of; null: this group has its own.
  std::shared_ptr<FirstCause> first_cause = nullptr;
};

// Ranks that are processes (or, in tests, threads) connected by gloo's TCP transport, under our own
// algorithms (gloo_collectives.h). `num_threads` communication threads run the collectives, so that many are
// in flight at once; besides them one thread of gloo's receives.
//
// A collective that makes no progress within the timeout, or loses a peer, fails; so do all that are
// unfinished or come later, at once, and with the first one's cause. The connections are closed then, so the
// other ranks fail too. A destructor drops what has not been started, and never waits for another rank.
//
// Tensors of a GPU are taken up when the compute stream has come to where they were issued, travel through
// host memory (comm/gloo/cuda_staging.h), and are back in the GPU's memory when Wait returns.
//
// Returns when all ranks are connected. Throws InvalidInput for bad options, CollectiveError if ranks are
// missing.
std::unique_ptr<QueueGroup> MakeGlooGroup(const GlooOptions& options);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_PROCESS_GROUP_H_
