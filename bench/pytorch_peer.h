#ifndef GRADSYNC_BENCH_PYTORCH_PEER_H_
#define GRADSYNC_BENCH_PYTORCH_PEER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/peer_process.h"
#include "bench/phase_timer.h"
#include "bench/rank_main.h"
#include "bench/record.h"
#include "comm/process_group.h"
#include "comm/world.h"
#include "model/model.h"

// PyTorch, trained step by step in turn with gradsync: every rank has a process of bench/peers/pytorch_ddp.py
// at its side, with the same weights, batches, threads and CPUs. These processes have a group of their own.
namespace gradsync::bench {

// How the process is started.
struct PeerProgram {
  std::string python;
  std::string script;
};

// The script, found where Bazel put it for the program that argv[0] names. Throws InvalidInput if it is not
// there.
PeerProgram FindPeerProgram(const std::string& python, const char* argv0);

// Throws InvalidInput, saying how to install PyTorch, if the interpreter cannot be run or has no PyTorch.
void CheckPeerProgram(const PeerProgram& program);

// What PyTorch calls the way that compares with gradsync's `strategy`: the same name, or "ddp" for the
// strategies that have buckets.
std::string PeerStrategy(const std::string& strategy);
// Those of several, each once.
std::vector<std::string> PeerStrategies(const std::vector<std::string>& strategies);
// The name in records: "pytorch_" before it.
std::string PeerName(const std::string& peer_strategy);

// What a peer says of one step.
struct PeerStep {
  StepMarks marks;           // as if the step had begun at 0
  bool sync_exposed = true;  // whether it can tell this apart from backward
};

// All calls are made by all ranks. What they throw, beside std::runtime_error if the process fails or does
// not answer in time, is CollectiveError.
class PyTorchPeer {
 public:
  // Starts the process, with the CPUs that the rank has for communication; it moves its own computation to
  // those for computation.
  PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
              const comm::World& world, const ThreadPlacement& placement, comm::ProcessGroup& group,
              const model::DevicePtr& device);

  // What it computes with, for the record: "pytorch", "python", "blas".
  const Fields& libraries() const { return libraries_; }

  // Makes the models. `config` is the record's; `weights` a safetensors file on rank 0's host, which must
  // stay until the next Begin.
  void Begin(const Fields& config, int64_t bucket_bytes, const std::vector<std::string>& strategies,
             const std::string& weights);

  PeerStep Step(const std::string& strategy, const model::Batch& batch);

  // A first step from the weights on. Writes the parameters after it under their names, and their gradients
  // under "grad." and the name.
  void Train(const std::string& strategy, const model::Batch& batch, const std::string& path);

 private:
  const RankOptions& options_;
  std::optional<PeerProcess> process_;
  Fields libraries_;
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PYTORCH_PEER_H_
