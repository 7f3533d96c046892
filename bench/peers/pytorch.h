#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "bench/launch/rank_options.h"
#include "bench/records/record.h"
#include "bench/records/step_times.h"
#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
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

// Throws InvalidInput, saying how to install PyTorch, if the interpreter cannot be run or has no PyTorch;
// also if its models are to be compiled for "cpu" or "cuda" (empty: they are not), and it cannot.
void CheckPeerProgram(const PeerProgram& program, const std::string& compile_for);

// One step, as the peer reports it.
struct PeerStep {
  int64_t begin_ns = 0;  // when it left the barrier, on the host's steady clock
  StepTimes times;
  // Peak use of its device's memory in this step, with the buffers of all its strategies; 0: it does not say.
  int64_t peak_bytes_in_use = 0;
};

// All calls are made by all ranks. What they throw, beside std::runtime_error if the process fails or does
// not answer in time, is CollectiveError.
class PyTorchPeer {
 public:
  class Process;

  // Starts the process, with malloc variables that keep memory.
  PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
              const comm::World& world, comm::ProcessGroup& group, const model::DevicePtr& device);
  ~PyTorchPeer();

  // For the record: the versions of its libraries ("pytorch", "python", "blas"), and its clock.
  const Fields& libraries() const { return libraries_; }
  const std::string& clock() const { return clock_; }

  // Makes the models of all strategies that will be asked for, with buckets of so many bytes, and compiles
  // what is to be compiled. `config` is the record's; `weights` a safetensors file on rank 0's host, which
  // must stay until the next Begin.
  void Begin(const ConfigFields& config, const std::map<std::string, int64_t>& bucket_bytes,
             const std::string& weights);

  // For the record of one of these strategies: "malloc"; "bucket_sizes" of one with buckets, in bytes;
  // "compiled", what torch.compile was given, and "compile_ns", if it was given something.
  const FactFields& FactsOf(const std::string& strategy) { return facts_[strategy]; }

  // So many steps on one batch, and then their means.
  PeerStep Step(const std::string& strategy, const model::Batch& batch, int64_t num_steps);

  // A first step from the weights on. Writes the parameters after it under their names, and their gradients
  // under "grad." and the name.
  void Train(const std::string& strategy, const model::Batch& batch, const std::string& path);

 private:
  const RankOptions& options_;
  std::unique_ptr<Process> process_;
  Fields libraries_;
  std::string clock_;
  std::map<std::string, FactFields> facts_;  // by strategy
};

}  // namespace gradsync::bench
