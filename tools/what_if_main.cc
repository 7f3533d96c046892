#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/predict/measured_link.h"
#include "tools/run_tool.h"
#include "tools/torch_answer.h"

namespace gradsync::tools {
namespace {

const std::map<std::string, Algorithm> kAlgorithms = {{"best", Algorithm::kBest},
                                                      {"ring", Algorithm::kRing},
                                                      {"tree", Algorithm::kTree},
                                                      {"hierarchical", Algorithm::kHierarchical}};

TorchProfile Read(const std::string& path) {
  std::ifstream file(path);
  Require(file.good(), path, ": cannot be read");
  return TorchProfile(file, path);
}

// Whether gradsync.record wrote the file.
bool IsRecording(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line.find("\"gradsync_torch\"") != std::string::npos;
}

Wire ReadWire(const std::string& flag, const std::string& text) {
  const std::optional<Wire> wire = ParseWire(text);
  Require(wire.has_value(), flag, "=", text, ": expected a rate and a latency such as 25Gbit,5us");
  return *wire;
}

int Run(int argc, const char* const* argv) {
  std::vector<std::string> recordings;
  std::string link, within = "200Gbit,3us", at, algorithm = "best";
  Elsewhere place;
  int64_t percent = -1;
  bench::FlagTable flags(
      "what_if",
      "What a step of a PyTorch model would take with other buckets, links and numbers of ranks.\n"
      "  what_if FILE");
  flags.AllowPaths(&recordings, "a file that gradsync.record wrote");
  flags.Add("world_size", &place.world_size, bench::Integer(0, 16384),
            "How many ranks, 2 or more. 0: as recorded.");
  flags.Add("ranks_per_host", &place.ranks_per_host, bench::Integer(1, 16384),
            "How many ranks share a host's link.");
  flags.Add("link", &link, bench::Text("a rate and a latency such as 25Gbit,5us, or a file"),
            "The link between hosts; a rate alone has 5us. Default: as recorded. A file may be another "
            "recording, what nccl-tests "
            "printed or wrote with -J, or records of //bench:all_reduce.");
  flags.Add(
      "within", &within, bench::Text("a rate and a latency such as 200Gbit,3us"),
      "The link between the ranks of one host. PCIe 4 moves about 200Gbit, NVLink of an H100 3600Gbit.");
  flags.Add("algorithm", &algorithm, bench::OneOf({"best", "ring", "tree", "hierarchical"}),
            "How ranks exchange data in a collective.");
  flags.Add("processor_percent", &percent, bench::Integer(-1, 1000),
            "How much of a rank's processors communication uses. -1: as measured, or assumed.");
  flags.Add("at", &at, bench::Path("a file that gradsync.record wrote"),
            "A recording of the model where the answer is to hold. Computation is scaled to its step without "
            "synchronisation; what else it measured is only compared.");
  return RunTool("what_if", &flags, argc, argv, std::cout, std::cerr, [&] {
    Require(recordings.size() == 1, recordings.empty() ? "what_if takes a recording"
                                                       : "what_if takes one recording: put the lines of "
                                                         "several launches into one file");
    std::optional<TorchProfile> link_of, measured;
    place.wire = ParseWire(link);
    const auto only = [&](bool is_used, std::string_view where,
                          std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names)
        Require(is_used || !flags.given(name), "--", name, " is for ", where);
    };
    constexpr std::string_view kWire =
        "a --link that is a rate and a latency, such as 100Gbit,5us (any, if all ranks share a host)";
    only(place.wire.has_value(), kWire, {"within", "algorithm", "ranks_per_host"});
    only(place.ranks_per_host > 1, "ranks that share a host: --ranks_per_host is 1", {"within"});
    if (!link.empty() && !place.wire) {
      const std::string path = bench::ResolvePath(link);
      Require(std::filesystem::exists(path), "--link=", link,
              ": neither a rate and a latency such as 25Gbit,5us nor a file");
      if (IsRecording(path)) {
        place.link_of = &link_of.emplace(Read(path));
      } else {
        place.link = ReadMeasuredLink(path);
      }
    }
    place.within = ReadWire("--within", within);
    if (percent >= 0) place.processor = static_cast<double>(percent) / 100;
    place.algorithm = kAlgorithms.at(algorithm);
    if (!at.empty()) {
      place.none_s = measured.emplace(Read(at)).Measured("none").value;
      Require(place.none_s > 0, "--at=", at, ": no steps without synchronisation");
    }
    PrintTorchAnswer(Read(recordings.front()), place, measured ? &*measured : nullptr, std::cout);
    return kDone;
  });
}

}  // namespace
}  // namespace gradsync::tools

int main(int argc, char** argv) { return gradsync::tools::Run(argc, argv); }
