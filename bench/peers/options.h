#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/flags.h"

namespace gradsync::bench {

// The suffix of the names of PyTorch's strategies whose model is compiled.
inline constexpr std::string_view kCompiledSuffix = "_compiled";

// Returns PyTorch's own name of a strategy that bench/peers/pytorch_training.py names, such as "ddp_view";
// empty for other strategies.
std::string_view PyTorchWay(std::string_view twin);

enum class PeerMode { kEager, kCompiled };

// Options of the comparison with another framework.
struct PeerOptions {
  bool wanted = false;
  std::string peer_python;  // path of a Python interpreter
  std::vector<PeerMode> modes = {PeerMode::kEager};

  void AddTo(FlagTable& flags);

  bool compiled() const;
  // Returns the interpreter that --peer_python or the environment names; by default "python3".
  std::string python() const;
};

// Throws InvalidInput for flags that have no effect without peers.
void CheckPeerOptions(const PeerOptions& options, const FlagTable& flags);

}  // namespace gradsync::bench
