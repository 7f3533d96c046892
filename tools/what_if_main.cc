#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/predict/measured_link.h"
#include "tools/run_tool.h"
#include "tools/strategies_answer.h"
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
  StrategiesQuestion question;
  std::string link, within = "200Gbit,3us", at, algorithm = "best";
  Elsewhere place;
  int64_t percent = -1;
  bench::FlagTable flags(
      "what_if",
      "What a step would take with other buckets, strategies, links and numbers of ranks.\n"
      "  what_if FILE           of a PyTorch model that gradsync.record has recorded\n"
      "  what_if DIR...         of gradsync's own strategies, from records of //bench:plan or //bench:ddp");
  flags.AllowPaths(&question.records, "a file that gradsync.record wrote, or records with the variant none");
  flags.Add("world_size", &place.world_size, bench::Integer(0, 16384),
            "How many ranks, 2 or more. 0: as recorded.");
  flags.Add(
      "ranks_per_host", &place.ranks_per_host, bench::Integer(1, 16384),
      "How many ranks share a host's link or, of gradsync's strategies without --link, the recorded host's "
      "processors.");
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
  flags.BeginGroup("PyTorch models");
  flags.Add("at", &at, bench::Path("a file that gradsync.record wrote"),
            "A recording of the model where the answer is to hold. Computation is scaled to its step without "
            "synchronisation; what else it measured is only compared.");
  flags.BeginGroup("gradsync's strategies");
  flags.Add("model", &question.model, bench::Text("a model of the records"),
            "Which model of the records. Default: the first. //bench:plan --model=NAME makes records of any "
            "model.");
  flags.Add("calibration", &question.calibrations, bench::Path("directories or files of //bench:calibrate"),
            "What the link can do, unless --link names another, and how much of the processors communication "
            "uses.");
  flags.Add("variants", &question.variants, bench::Text("variants or strategies of the records"),
            "Which variants of the records. Default: all.");
  flags.Add("out", &question.figure, bench::Path("a file"), "A map (SVG) of which variant is fastest where.");
  flags.Add("measured", &question.measured, bench::Path("directories or files of //bench:ddp"),
            "Steps of as many ranks over the same link, or without --link as recorded: compared with "
            "predictions, and used for nothing else. Those over links are marked in the map.");
  return RunTool("what_if", &flags, argc, argv, std::cout, std::cerr, [&] {
    Require(!question.records.empty(), "what_if takes a recording, or directories or files with records");
    const bool is_torch = IsRecording(question.records.front());
    std::optional<TorchProfile> link_of, measured;
    place.wire = ParseWire(link);
    const bool has_wire = place.wire || !question.figure.empty();  // a map has links of its own
    const auto only = [&](bool is_used, std::string_view where,
                          std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names)
        Require(is_used || !flags.given(name), "--", name, " is for ", where);
    };
    only(!is_torch, "records of gradsync's strategies",
         {"model", "calibration", "variants", "out", "measured"});
    only(is_torch, "a recording of a PyTorch model", {"at"});
    constexpr std::string_view kWire =
        "a --link that is a rate and a latency, such as 100Gbit,5us (any, if all ranks share a host)";
    only(has_wire, kWire, {"within", "algorithm"});
    only(has_wire || (!is_torch && link.empty()), kWire, {"ranks_per_host"});
    only(place.ranks_per_host > 1, "ranks that share a host: --ranks_per_host is 1", {"within"});
    if (!link.empty() && !place.wire) {
      const std::string path = bench::ResolvePath(link);
      Require(std::filesystem::exists(path), "--link=", link,
              ": neither a rate and a latency such as 25Gbit,5us nor a file");
      if (is_torch && IsRecording(path)) {
        place.link_of = &link_of.emplace(Read(path));
      } else {
        place.link = ReadMeasuredLink(path);
      }
    }
    place.within = ReadWire("--within", within);
    if (percent >= 0) place.processor = static_cast<double>(percent) / 100;
    place.algorithm = kAlgorithms.at(algorithm);
    if (is_torch) {
      Require(question.records.size() == 1,
              "what_if takes one recording: put the lines of several launches into one file");
      if (!at.empty()) {
        place.none_s = measured.emplace(Read(at)).Measured("none").value;
        Require(place.none_s > 0, "--at=", at, ": no steps without synchronisation");
      }
      PrintTorchAnswer(Read(question.records.front()), place, measured ? &*measured : nullptr, std::cout);
    } else {
      question.place = place;
      PrintStrategiesAnswer(question, std::cout);
    }
    return kDone;
  });
}

}  // namespace
}  // namespace gradsync::tools

int main(int argc, char** argv) { return gradsync::tools::Run(argc, argv); }
