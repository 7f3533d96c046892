#include "bench/peers/options.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "bench/launch/flag_marks.h"
#include "model/base/error.h"

namespace gradsync::bench {

std::string_view PyTorchWay(std::string_view twin) {
  constexpr std::pair<std::string_view, std::string_view> kWays[] = {
      {"none", "no DistributedDataParallel"},
      {"naive", "all_reduce of each p.grad after backward"},
      {"flat", "all_reduce of one flattened tensor after backward"},
      {"overlap", "register_post_accumulate_grad_hook with all_reduce(async_op=True)"},
      {"ddp", "DistributedDataParallel"},
      {"ddp_view", "DistributedDataParallel(gradient_as_bucket_view=True)"},
      {"zero1", "ZeroRedundancyOptimizer with DistributedDataParallel, as over gloo"},
      {"fully_shard", "fully_shard of each block and of the model"},
      {"bf16_hook", "DistributedDataParallel with bf16_compress_hook"},
      {"post_local_sgd", "PeriodicModelAverager"}};
  const auto* const way =
      std::ranges::find(kWays, twin, &std::pair<std::string_view, std::string_view>::first);
  return way == std::end(kWays) ? "" : way->second;
}

void PeerOptions::AddTo(FlagTable& flags) {
  flags.BeginGroup("Other frameworks");
  flags.Add(
      "with_peers", &wanted, OneOf<bool>({{"none", false}, {"pytorch", true}}),
      "Lets PyTorch take turns with gradsync, with the same weights and batches.\nIt trains in the way that "
      "is "
      "closest to each strategy. Its gradients are checked, except on images in bf16, where rounding changes "
      "them too much. With buckets of another size than 25 MiB PyTorch has no small first bucket; gradsync's "
      "strategies keep theirs unless they have small_first=0.",
      kChoosesPeers);
  flags.Add("peer_modes", &modes,
            OneOf<PeerMode>({{"eager", PeerMode::kEager}, {"compiled", PeerMode::kCompiled}}),
            "Runs the peers' model in these ways.\neager: operation by operation. compiled: by torch.compile "
            "in its default "
            "mode, which compiles before the first step, perhaps for minutes. Both may be given.",
            kChoosesPeers);
  flags.Add("peer_python", &peer_python, Text("a Python interpreter that has PyTorch"),
            "Runs PyTorch with this Python.\nDefault: what PYTHON in the environment names, else python3.",
            kChoosesPeers);
}

bool PeerOptions::compiled() const { return wanted && std::ranges::count(modes, PeerMode::kCompiled) > 0; }

std::string PeerOptions::python() const {
  if (!peer_python.empty()) return peer_python;
  const char* const python = std::getenv("PYTHON");
  return python == nullptr || *python == '\0' ? "python3" : python;
}

void CheckPeerOptions(const PeerOptions& options, const FlagTable& flags) {
  if (!options.wanted) flags.Refuse({"peer_python", "peer_modes"}, "needs --with_peers=pytorch");
}

}  // namespace gradsync::bench
