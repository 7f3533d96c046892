// Stands in for `python3 bench/peers/pytorch_ddp.py` in tests, and takes no real steps. FAKE_PEER in the
// environment says what goes wrong: "uninstalled", "dies", "hangs", "garbles"; FAKE_PEER_RESULT names the
// file that its training ends with.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace {

using Json = nlohmann::json;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Json TakeStep(const Json& command, const std::string& fault) {
  if (fault == "dies") {
    std::fputs("Traceback\nRuntimeError: out of luck\n\n", stderr);
    std::exit(3);
  }
  if (fault == "hangs") pause();
  const bool is_ddp = command.at("strategy") == "ddp";
  Json answer = {{"forward_ns", 1000}, {"backward_ns", 2000}, {"optimizer_ns", 300}};
  // The first token, to see whose batch it is.
  answer["forward_ns"] = 1000 + command.at("inputs").at(0).get<int>();
  if (!is_ddp) answer["sync_exposed_ns"] = 500;
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string fault = Variable("FAKE_PEER");
  // argv[1] is the script.
  if (argc == 3 && std::string_view(argv[2]) == "--check") {
    if (fault != "uninstalled") return 0;
    std::fputs("this has no PyTorch: install it\n", stderr);
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Json command = Json::parse(line);
    const std::string what = command.at("do");
    Json answer = Json::object();
    if (what == "hello") answer = {{"libraries", {{"pytorch", "9.9"}}}, {"port", 1}};
    if (what == "step") answer = TakeStep(command, fault);
    if (what == "check") std::filesystem::copy_file(Variable("FAKE_PEER_RESULT"), command.at("path"));
    std::cout << (fault == "garbles" ? "nonsense" : answer.dump()) << std::endl;
  }
  return 0;
}
