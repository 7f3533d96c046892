#include "bench/training/options.h"

#include <filesystem>
#include <system_error>

#include "bench/peers/pytorch.h"
#include "bench/timing/nvtx.h"
#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;
constexpr int64_t kMaxRepeats = 1000;

}  // namespace

TrainingOptions::TrainingOptions() : strategies(ddp::StrategyNames()) {}

void TrainingOptions::AddTo(FlagTable& flags) {
  flags.BeginGroup("Training");
  flags.Add(
      "dtype", &dtype, OneOf({"f32", "f64", "bf16"}),
      "The type of weights, activations and gradients. bf16: that of activations and of what matrix products "
      "and convolutions read; weights, gradients and the optimizer's state are f32.");
  flags.Add(
      "tf32", &tf32, Switch(),
      "On a GPU with f32: matrix products may round their factors to TF32, for several times the speed.");
  flags.Add("optimizer", &optimizer, OneOf({"adamw", "sgd"}), "What changes the weights.");
  flags.Add("learning_rate", &learning_rate, PositiveNumber(), "The optimizer's.");
  flags.BeginGroup("What is compared");
  flags.Add("strategies", &strategies, OneOf(ddp::StrategyNames()),
            "Ways of averaging gradients to compare.");
  flags.Add("backend", &backend, OneOf(comm::BackendNames()), "What moves the gradients.");

  flags.BeginGroup("Steps");
  flags.Add("warmup_steps", &warmup_steps, Integer(0, kMaxSteps),
            "Untimed steps of each strategy before the timed ones.");
  flags.Add("steps", &steps, Integer(1, kMaxSteps),
            "Timed steps of each strategy, among each set of strategies that are compared.");
  flags.Add("order", &order, OneOf({"interleaved", "blocks"}),
            "interleaved: in every round each strategy takes one step, in random order. blocks: one strategy "
            "after the other.");
  flags.Add(
      "precision", &precision, Percent(),
      "Go on, beyond --steps, until half the 95% interval of each strategy's difference to the first one is "
      "no more than this part of the first one's step.");
  flags.Add("max_steps", &max_steps, Integer(1, kMaxSteps),
            "Timed steps of each strategy, at most, with --precision.");
  flags.Add("repeats", &ranks.repeats, Integer(1, kMaxRepeats),
            "Launches, one after the other, each of fresh processes with another seed and another order: "
            "what a launch brings about by chance differs between them too.");
  ranks.AddTo(flags);

  flags.BeginGroup("Checks, traces, profiles");
  flags.Add("verify", &verify, Switch(),
            "After timing, compare each strategy with one process that trains on the batches of all "
            "ranks.");
  flags.Add("check_gradients", &check_gradients, Switch(),
            "Stop at the first gradient of a rank that is NaN or infinite, before it is averaged, and name "
            "it. Takes a pass over every gradient, so that the steps count as traced.");
  flags.Add("trace", &trace, Switch(), "Write what happened when in the timed steps, for ui.perfetto.dev.");
  flags.Add("profile", &profile, Switch(),
            "Print where the time of a step goes, by operation, beside the least that each can take on this "
            "device; the record has it too.");
  flags.Add("nvtx", &nvtx, Switch(),
            "Name steps, phases, operations of backward and collectives as NVTX ranges, for Nsight Systems: "
            "nsys profile --trace=nvtx,cuda,osrt.");
  flags.Add(
      "dump_grads", &dump_grads, Path("a file"),
      "Write the averaged gradients and the loss of a first step with the first strategy, as safetensors.");
  peers.AddTo(flags);
}

void TrainingOptions::Complete(const FlagTable& /*flags*/, const comm::World& world) {
  CheckDevice(ranks, {&backend, 1}, world);
  Require(!nvtx || HaveNvtx(), "--nvtx: this program was built without CUDA's toolkit, which has NVTX");
  Require(!tf32 || (ranks.device == "cuda" && dtype == "f32"),
          "--tf32: expected --device=cuda and --dtype=f32, found ", ranks.device, " and ", dtype);
  Require(!precision || interleaved(),
          "--precision: steps are compared round by round, expected --order=interleaved");
  const std::filesystem::path directory = std::filesystem::path(dump_grads).parent_path();
  std::error_code ignored;
  Require(dump_grads.empty() || std::filesystem::is_directory(directory, ignored),
          "--dump_grads=", dump_grads, ": there is no directory ", directory.string());
  Require(dump_grads.empty() || ranks.repeats == 1,
          "--dump_grads: one launch writes the file, expected --repeats=1, found ", ranks.repeats);
  CheckPeerOptions(peers, dtype);
}

std::vector<std::string> TrainingOptions::PeersStrategies() const {
  return peers.wanted() ? PeerStrategies(strategies, peers.modes) : std::vector<std::string>();
}

}  // namespace gradsync::bench
