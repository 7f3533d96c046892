// Stands in for `python3 bench/peers/pytorch_ddp.py` in tests, and takes no real steps. The environment
// variable FAKE_PEER selects an error: "uninstalled", "compilerless", "dies", "hangs", "garbles";
// FAKE_PEER_RESULT names the file with the result of the training, and FAKE_PEER_LOG names a file to which
// commands to begin are written, with a hash of the weights.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace {

using Json = nlohmann::json;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Skips a tensor after a command, with 4 bytes per element.
void SkipTensor(const Json& command, const char* name) {
  if (!command.contains(name)) return;
  size_t bytes = 4;
  for (const Json& dim : command.at(name).at("shape")) bytes *= dim.get<size_t>();
  // std::istream::ignore() would wait for one more byte.
  std::string skipped(bytes, '\0');
  std::cin.read(skipped.data(), static_cast<std::streamsize>(bytes));
}

Json TakeStep(const Json& command, const std::string& fault) {
  if (fault == "dies") {
    std::fputs("Traceback\nRuntimeError: out of luck\n\n", stderr);
    std::exit(3);
  }
  if (fault == "hangs") pause();
  if (command.at("strategy").get<std::string>().starts_with("ddp")) {
    return {{"begin_ns", 7}, {"forward_ns", 1000}, {"backward_and_sync_ns", 2500}, {"optimizer_ns", 300}};
  }
  return {{"begin_ns", 7},       {"forward_ns", 1000},  {"backward_ns", 2000},
          {"sync_wait_ns", 500}, {"optimizer_ns", 300}, {"peak_bytes_in_use", 4096}};
}

Json FactsOf(const Json& begin) {
  Json facts = Json::object();
  for (const auto& [strategy, bucket_bytes] : begin.at("bucket_bytes").items()) {
    if (strategy.starts_with("ddp")) facts[strategy] = {{"bucket_sizes", "4096, 8192"}};
    if (strategy.ends_with("_compiled"))
      facts[strategy].update({{"compiled", "a model"}, {"compile_ns", 77}});
  }
  return facts;
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): an exception ends a peer that fails
  const std::string fault = Variable("FAKE_PEER");
  // argv[1] is the path of the script.
  if (argc >= 3 && std::string_view(argv[2]) == "--check") {
    if (fault == "uninstalled") std::fputs("this has no PyTorch: install it\n", stderr);
    if (fault == "compilerless" && argc == 4) std::fprintf(stderr, "no compiler for %s\n", argv[3]);
    return fault == "uninstalled" || (fault == "compilerless" && argc == 4) ? 1 : 0;
  }
  int rank = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const Json command = Json::parse(line);
    const std::string what = command.at("do");
    Json answer = Json::object();
    if (what == "hello") {
      rank = command.at("rank");
      answer = {{"port", 1}};
    }
    if (what == "join")
      answer = {{"libraries", {{"pytorch", "9.9"}, {"mmap_max", Variable("MALLOC_MMAP_MAX_")}}},
                {"clock", "a sundial"}};
    if (what == "begin") {
      // Only rank 0 has the file.
      std::ifstream file(command.at("weights").get<std::string>());
      const std::string weights((std::istreambuf_iterator<char>(file)), {});
      if (rank == 0 && weights.empty()) return 3;
      if (!Variable("FAKE_PEER_LOG").empty()) {
        std::ofstream(Variable("FAKE_PEER_LOG"), std::ios::app)
            << line << ", weights " << std::hash<std::string>()(weights) << "\n";
      }
      answer = {{"facts", FactsOf(command)}};
    }
    for (const char* const part : {"inputs", "targets"}) SkipTensor(command, part);
    if (what == "step") answer = TakeStep(command, fault);
    if (what == "check") std::filesystem::copy_file(Variable("FAKE_PEER_RESULT"), command.at("path"));
    std::cout << (fault == "garbles" ? "nonsense" : answer.dump()) << std::endl;
  }
  return 0;
}
