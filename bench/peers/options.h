#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/flags.h"

namespace gradsync::bench {

// The end of the name of a peer (a strategy of PyTorch) whose model is compiled by torch.compile.
inline constexpr std::string_view kCompiledSuffix = "_compiled";

// Returns a short description of the PyTorch strategy `twin`, in names of PyTorch's classes and functions.
// `twin` is a value of ddp::Traits::pytorch_twin: a name without bucket size and without kCompiledSuffix. For
// example, PyTorchWay returns "DistributedDataParallel(gradient_as_bucket_view=True)" for "ddp_view". Returns
// an empty text if gradsync measures no strategy of PyTorch with the name `twin`.
std::string_view PyTorchWay(std::string_view twin);

enum class PeerMode { kEager, kCompiled };

// The values of the flags about the comparison with PyTorch, whose strategies are called peers.
struct PeerOptions {
  bool wanted = false;
  std::string peer_python;  // path of a Python interpreter
  std::vector<PeerMode> modes = {PeerMode::kEager};

  void AddTo(FlagTable& flags);

  bool compiled() const;
  // Returns the Python interpreter that runs PyTorch: the value of --peer_python, else that of the
  // environment variable PYTHON, else (if PYTHON is unset or empty) "python3".
  std::string python() const;
};

// Throws InvalidInput if --peer_python or --peer_modes is given without --with_peers=pytorch.
void CheckPeerOptions(const PeerOptions& options, const FlagTable& flags);

}  // namespace gradsync::bench
