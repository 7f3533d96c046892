#include <iostream>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/run_tool.h"
#include "tools/what_if_strategies.h"

namespace gradsync::tools {
namespace {

int Run(int argc, const char* const* argv) {
  std::vector<std::string> inputs, calibrations, variants;
  std::string link, within, algorithm = "best", figure;
  int64_t percent = -1;
  Place place;
  bench::FlagTable flags(
      "what_if_strategies",
      "Predicts steps of strategies in a world, and over a link, that nobody here has.\n"
      "  bazel run //bench:plan -- --model=small --world_size=64 --out=PLANS\n"
      "  bazel run //tools:what_if_strategies -- PLANS --link=100Gbit,5us --ranks_per_host=8");
  flags.AllowPaths(&inputs, "records of //bench:plan, or of //bench:ddp with the variant none");
  flags.Add("calibration", &calibrations, bench::Path("directories or files of //bench:calibrate"),
            "The link, unless --link gives another, and what communication takes of the processors.");
  flags.Add("variants", &variants, bench::Text("variants or strategies of the records"),
            "Without it all of them.");
  flags.Add("world_size", &place.world_size, bench::Integer(0, 16384), "Ranks. 0: as recorded.");
  flags.Add("ranks_per_host", &place.ranks_per_host, bench::Integer(1, 16384), "That share a host's link.");
  flags.Add("link", &link, bench::Text("a rate and a latency such as 25Gbit,5us"), "Between hosts.");
  flags.Add("within", &within, bench::Text("a rate and a latency such as 200Gbit,3us"),
            "Between ranks of a host.");
  flags.Add("algorithm", &algorithm, bench::OneOf({"best", "ring", "tree", "hierarchical"}),
            "Of collectives.");
  flags.Add("processor_percent", &percent, bench::Integer(-1, 1000),
            "What communication uses of a rank's processor. -1: as calibrated, or assumed.");
  flags.Add("figure", &figure, bench::Path("a file"), "A map (SVG) of which variant is fastest where.");
  return RunTool("what_if_strategies", &flags, argc, argv, std::cout, std::cerr, [&] {
    Require(!inputs.empty(), "no input: takes directories or files with records");
    const auto read = [](const char* flag, const std::string& text) {
      const std::optional<Wire> wire = ParseWire(text);
      Require(wire.has_value(), flag, "=", text, ": expected a rate and a latency such as 25Gbit,5us");
      return *wire;
    };
    if (!link.empty()) place.link = read("--link", link);
    if (!within.empty()) place.within = read("--within", within);
    if (percent >= 0) place.processor = static_cast<double>(percent) / 100;
    place.algorithm = algorithm == "ring"           ? Algorithm::kRing
                      : algorithm == "tree"         ? Algorithm::kTree
                      : algorithm == "hierarchical" ? Algorithm::kHierarchical
                                                    : Algorithm::kBest;
    PrintVariantsAnswer(inputs, calibrations, variants, place, figure, std::cout);
    return kDone;
  });
}

}  // namespace
}  // namespace gradsync::tools

int main(int argc, char** argv) { return gradsync::tools::Run(argc, argv); }
