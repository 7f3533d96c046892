#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/run_tool.h"
#include "tools/torch_answer.h"

namespace gradsync::tools {
namespace {

TorchProfile Read(const std::string& path) {
  std::ifstream file(path);
  Require(file.good(), path, ": cannot be read");
  return TorchProfile(file, path);
}

int Run(int argc, const char* const* argv) {
  std::vector<std::string> files;
  std::string link, at;
  Elsewhere elsewhere;
  bench::FlagTable flags("what_if",
                         "What a step would take, of a PyTorch model that record_torch.py has recorded.");
  flags.AllowPaths(&files, "a file that record_torch.py wrote");
  flags.Add("world_size", &elsewhere.world_size, bench::Integer(0, 16384), "Ranks. 0: as recorded.");
  flags.Add("ranks_per_host", &elsewhere.ranks_per_host, bench::Integer(1, 1024),
            "That share a host's link.");
  flags.Add("link", &link,
            bench::Text("a rate and a latency such as 25Gbit,5us, or a file that record_torch.py wrote"),
            "Between the ranks; without it as recorded.");
  flags.Add("at", &at, bench::Path("a file that record_torch.py wrote"),
            "A recording of the model where the answer is to hold. Computation is scaled to its step without "
            "synchronisation; what else it measured is only compared.");
  return RunTool("what_if", &flags, argc, argv, std::cout, std::cerr, [&] {
    Require(files.size() == 1, "what_if takes one file");
    std::optional<TorchProfile> link_of, measured;
    elsewhere.wire = ParseWire(link);
    if (!link.empty() && !elsewhere.wire) elsewhere.link_of = &link_of.emplace(Read(link));
    if (!at.empty()) elsewhere.none_s = measured.emplace(Read(at)).Measured("none").value;
    PrintTorchAnswer(Read(files.front()), elsewhere, measured ? &*measured : nullptr, std::cout);
    return kDone;
  });
}

}  // namespace
}  // namespace gradsync::tools

int main(int argc, char** argv) { return gradsync::tools::Run(argc, argv); }
