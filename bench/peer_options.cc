#include "bench/peer_options.h"

#include <cstdlib>

#include "model/error.h"

namespace gradsync::bench {

void PeerOptions::AddTo(FlagTable& flags) {
  flags.AddChoice(
      "with_peers", &with_peers, {"none", "pytorch"},
      "pytorch: PyTorch takes the same steps with the same weights and batches, in turn with gradsync's "
      "own strategies: none, naive, flat and overlap as they are, DistributedDataParallel for those "
      "with buckets, for core with its gradient_as_bucket_view.");
  flags.AddText("peer_python", &peer_python, "a Python interpreter that has PyTorch",
                "Default: what PYTHON in the environment names, else python3.");
}

std::string PeerOptions::python() const {
  if (!peer_python.empty()) return peer_python;
  const char* const python = std::getenv("PYTHON");
  return python == nullptr || *python == '\0' ? "python3" : python;
}

void CheckPeerOptions(const PeerOptions& options, std::string_view dtype) {
  Require(!options.wanted() || dtype == "f32" || dtype == "bf16", "--dtype=", dtype,
          ": --with_peers takes f32 or bf16");
}

}  // namespace gradsync::bench
