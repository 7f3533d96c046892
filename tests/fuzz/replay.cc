// Runs without a fuzzer: calls LLVMFuzzerTestOneInput with the inputs of a corpus, each unchanged, truncated
// at many places, and with many of its bytes changed. Arguments: files and folders.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

// The number of places of a long input that are tried.
constexpr size_t kPlaces = 200;

void Give(const std::string& input) {
  gradsync::LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

void GiveDamaged(const std::string& input) {
  const size_t step = std::max<size_t>(1, input.size() / kPlaces);
  for (size_t i = 0; i < input.size(); i += step) {
    Give(input.substr(0, i));
    for (const char byte : {'\0', '\xff', '"', '9', static_cast<char>(input[i] ^ 1)}) {
      std::string damaged = input;
      damaged[i] = byte;
      Give(damaged);
    }
  }
}

std::vector<std::string> Files(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (!entry.is_directory()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  int num_files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const std::string& path : Files(argv[i])) {
      std::ifstream file(path, std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      std::printf("%s: %zu bytes\n", path.c_str(), input.size());
      std::fflush(stdout);  // the last line names the input that ends the program
      Give(input);
      GiveDamaged(input);
      ++num_files;
    }
  }
  if (num_files == 0) std::fprintf(stderr, "no inputs\n");
  return num_files > 0 ? 0 : 1;
}
