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

// The class PyTorchPeer lets a benchmark also take training steps with PyTorch, and compare their times with
// those of gradsync's steps. Every rank starts a Python process (bench/peers/pytorch_ddp.py), which trains
// from rank 0's weights, with the batches, number of threads and CPUs of its own rank. The Python processes
// of all ranks communicate by torch.distributed.
namespace gradsync::bench {

struct PeerProgram {
  std::string python;
  std::string script;
};

// Returns a PeerProgram with the interpreter `python` (a path, or a name such as "python3") and the script
// bench/peers/pytorch_ddp.py in the runfiles of the program `argv0`. Throws InvalidInput if the script is
// missing or cannot be read.
PeerProgram FindPeerProgram(const std::string& python, const char* argv0);

// Throws InvalidInput, with the reason, if the Python interpreter `program.python` cannot be run or has no
// PyTorch 2.4 or newer. If `compile_for` is "cpu" or "cuda", also throws if torch.compile does not work for
// this device.
void CheckPeerProgram(const PeerProgram& program, const std::string& compile_for);

// What the Python process measured in one call of PyTorchPeer::Step: when the first step began, mean times,
// and the peak memory.
struct PeerStep {
  int64_t begin_ns = 0;  // time when the process left the barrier before the first step, on the steady clock
  StepTimes times;
  // The most bytes of GPU memory that PyTorch had in use at the same time during the steps of one call of
  // PyTorchPeer::Step; 0 if PyTorch computes on the CPU. The number includes the models and buffers of all
  // strategies that the Python process runs, not only of the strategy that took the steps.
  int64_t peak_bytes_in_use = 0;
};

// A PyTorchPeer starts a Python process, and lets it take this rank's training steps with PyTorch. Weights
// and gradients pass between the Python process and this process in files. All ranks must make their
// PyTorchPeer objects, and call Begin, Step and Train, in the same order. The constructor, Begin, Step and
// Train throw std::runtime_error if the Python process fails or does not answer in time. The constructor also
// throws CollectiveError if rank 0 cannot send the address of its Python process to the other ranks.
class PyTorchPeer {
 public:
  class Process;

  // Starts the Python process, with environment variables that make glibc's malloc keep freed memory;
  // variables that the user has set stay unchanged.
  PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
              const comm::World& world, comm::ProcessGroup& group, const model::DevicePtr& device);
  ~PyTorchPeer();

  // Facts for records: the versions of Python, PyTorch and its libraries, and the name of the clock that
  // times PyTorch's steps.
  const Fields& libraries() const { return libraries_; }
  const std::string& clock() const { return clock_; }

  // `bucket_bytes` has the names of the strategies of PyTorch that Step and Train may run, with the bucket
  // size of each in bytes. The Python process makes the models of these strategies (some strategies share a
  // model), with the weights of rank 0's `model`. The Python process also compiles, with torch.compile, the
  // model of each strategy whose name ends with kCompiledSuffix. `config` has the sizes of the model, the
  // shape of a batch, the optimizer, its learning rate and the dtype.
  void Begin(const ConfigFields& config, const std::map<std::string, int64_t>& bucket_bytes,
             const model::Model& model);

  // Returns the facts for the record of a strategy of PyTorch: the environment variables of glibc's malloc
  // and, if the strategy uses DistributedDataParallel, the sizes in bytes of its buckets. If the strategy's
  // model is compiled, FactsOf also returns `compiled` (such as "torch.compile(model)") and `compile_ns`: the
  // time in ns of compiling and of two forward and backward passes together.
  const FactFields& FactsOf(const std::string& strategy) { return facts_[strategy]; }

  // Lets the Python process take `num_steps` training steps with the strategy `strategy` on one batch.
  // Returns the mean times of the parts of a step, such as the forward pass, and PeerStep's other members.
  PeerStep Step(const std::string& strategy, const model::Batch& batch, int64_t num_steps);

  // Lets the Python process take one training step from the weights that Begin gave it (those of rank 0's
  // `model`). The Python process writes the new values of the parameters, under their names, and their
  // gradients, as "grad.<name of the parameter>", into a file. Train returns this file, opened for reading.
  // The next call of Train overwrites the file.
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
