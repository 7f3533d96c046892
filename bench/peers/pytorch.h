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
#include "comm/processes/temporary_directory.h"
#include "comm/rendezvous/world.h"
#include "model/files/safetensors.h"
#include "model/model.h"

// Runs PyTorch's training steps in turn with gradsync's. Every rank starts a process of
// bench/peers/pytorch_ddp.py, which uses the weights, batches, number of threads and CPUs of the rank. These
// processes form their own group.
namespace gradsync::bench {

// The command that starts the process.
struct PeerProgram {
  std::string python;
  std::string script;
};

// Finds the script in the runfiles of the program that argv[0] names. Throws InvalidInput if the script is
// missing.
PeerProgram FindPeerProgram(const std::string& python, const char* argv0);

// Throws InvalidInput, with a line that tells how to install PyTorch, if the interpreter cannot be run or has
// no PyTorch. If `compile_for` is "cpu" or "cuda", also throws if PyTorch cannot compile models for this
// device.
void CheckPeerProgram(const PeerProgram& program, const std::string& compile_for);

// One step of PyTorch, with the values that its process reports.
struct PeerStep {
  int64_t begin_ns = 0;  // time when the process left the barrier, on the host's steady clock
  StepTimes times;
  // Maximum memory of PyTorch's device in this step, including the buffers of all strategies; 0 if unknown.
  int64_t peak_bytes_in_use = 0;
};

// This process and PyTorch's process exchange weights and gradients in files. All ranks must make all calls.
// Calls throw CollectiveError, and std::runtime_error if the process fails or does not answer in time.
class PyTorchPeer {
 public:
  class Process;

  // Starts the process, with environment variables that make malloc keep freed memory.
  PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
              const comm::World& world, comm::ProcessGroup& group, const model::DevicePtr& device);
  ~PyTorchPeer();

  // Returns the versions of the process's libraries ("pytorch", "python", "blas"), and its clock, for
  // records.
  const Fields& libraries() const { return libraries_; }
  const std::string& clock() const { return clock_; }

  // Makes the models of all strategies that Step will name, with the given bucket sizes in bytes and the
  // weights of rank 0's `model`, and compiles models if this is requested. `config` is the configuration of
  // the record.
  void Begin(const ConfigFields& config, const std::map<std::string, int64_t>& bucket_bytes,
             const model::Model& model);

  // Returns facts for the record of a strategy: "malloc"; with buckets, "bucket_sizes" in bytes; "compiled"
  // with the arguments of torch.compile; and "compile_ns" if the model is compiled.
  const FactFields& FactsOf(const std::string& strategy) { return facts_[strategy]; }

  // Takes `num_steps` steps on one batch, and returns the means of their times.
  PeerStep Step(const std::string& strategy, const model::Batch& batch, int64_t num_steps);

  // Takes the first step from the weights. Returns the parameters after this step under their names, and
  // their gradients under "grad." and the name. The file is overwritten by the next call.
  model::SafetensorsFile Train(const std::string& strategy, const model::Batch& batch);

 private:
  const RankOptions& options_;
  const int rank_;
  const comm::TemporaryDirectory files_;
  std::unique_ptr<Process> process_;
  Fields libraries_;
  std::string clock_;
  std::map<std::string, FactFields> facts_;  // by strategy
};

}  // namespace gradsync::bench
