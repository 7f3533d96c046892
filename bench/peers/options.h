#ifndef GRADSYNC_BENCH_PEERS_OPTIONS_H_
#define GRADSYNC_BENCH_PEERS_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/base/flags.h"

namespace gradsync::bench {

// Behind the names that PyTorch's process gives to strategies whose model is compiled.
inline constexpr std::string_view kCompiled = "_compiled";

// What a user of PyTorch calls a way that bench/peers/pytorch_training.py names ("ddp_view"); empty for
// others.
std::string_view PyTorchWay(std::string_view twin);

// Whether another framework takes the same steps.
struct PeerOptions {
  std::string with_peers = "none";
  std::string peer_python;                     // an interpreter
  std::vector<std::string> modes = {"eager"};  // and "compiled"

  void AddTo(FlagTable& flags);

  bool wanted() const { return with_peers != "none"; }
  bool compiled() const;
  // The interpreter that --peer_python names, or the environment, or by default "python3".
  std::string python() const;
};

// Throws InvalidInput if peers are wanted that do not train in this --dtype, or modes of none.
void CheckPeerOptions(const PeerOptions& options, std::string_view dtype);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_PEERS_OPTIONS_H_
