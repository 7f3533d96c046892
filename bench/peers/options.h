#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/flags.h"

namespace gradsync::bench {

// Behind the names that PyTorch's process gives to strategies whose model is compiled.
inline constexpr std::string_view kCompiledSuffix = "_compiled";

// What a user of PyTorch calls a way that bench/peers/pytorch_training.py names ("ddp_view"); empty for
// others.
std::string_view PyTorchWay(std::string_view twin);

enum class PeerMode { kEager, kCompiled };

// Whether another framework takes the same steps.
struct PeerOptions {
  bool wanted = false;
  std::string peer_python;  // an interpreter
  std::vector<PeerMode> modes = {PeerMode::kEager};

  void AddTo(FlagTable& flags);

  bool compiled() const;
  // The interpreter that --peer_python names, or the environment, or by default "python3".
  std::string python() const;
};

// Throws InvalidInput for flags that have no effect without peers.
void CheckPeerOptions(const PeerOptions& options);

}  // namespace gradsync::bench
