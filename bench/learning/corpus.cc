#include "bench/learning/corpus.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;

// One of kHeldOut files, or one of kHeldOut parts of a file, is held out.
constexpr size_t kHeldOut = 10;

// Returns the directory of the newest release.
std::string CompilerHeaders() {
  std::error_code error;
  std::string found;
  int64_t newest = -1;
  for (const auto& entry : fs::directory_iterator("/usr/include/c++", error)) {
    const int64_t release = ParseInteger(entry.path().filename().string()).value_or(-1);
    if (release <= newest) continue;
    newest = release;
    found = entry.path().string();
  }
  Require(!found.empty(), "--corpus: there are no C++ headers in /usr/include/c++, expected a text");
  return found;
}

std::string ReadFile(const fs::path& path, int64_t max_bytes) {
  std::ifstream in(path, std::ios::binary);
  std::error_code error;
  const auto size_bytes = static_cast<int64_t>(fs::file_size(path, error));
  std::string text(error ? 0 : static_cast<size_t>(std::min(size_bytes, max_bytes)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  Require(in.good() && !error, "--corpus: ", path.string(), ": cannot be read");
  return text;
}

void ReadDirectory(const std::string& path, int64_t max_bytes, Corpus& text) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(path, error); entry != end(entry);
       entry.increment(error)) {
    std::error_code of_entry;  // such as of a link that leads nowhere, which is no file
    if (entry->is_regular_file(of_entry)) files.push_back(entry->path());
  }
  Require(!error, "--corpus=", path, ": cannot be read: ", error.message());
  std::ranges::sort(files);
  for (size_t i = 0; i < files.size() && max_bytes > 0; ++i) {
    const std::string file = ReadFile(files[i], std::numeric_limits<int64_t>::max());
    (i % kHeldOut == kHeldOut - 1 ? text.held_out : text.training) += file;
    max_bytes -= static_cast<int64_t>(file.size());
  }
}

std::string Sha256Of(const Corpus& text) {
  sha256_ctx context;
  sha256_init(&context);
  const std::string length = Join(text.training.size(), "\n");
  for (const std::string* part : {&length, &text.training, &text.held_out})
    sha256_update(&context, part->size(), reinterpret_cast<const uint8_t*>(part->data()));
  std::string digest(SHA256_DIGEST_SIZE, '\0');
  sha256_digest(&context, digest.size(), reinterpret_cast<uint8_t*>(digest.data()));
  return absl::BytesToHexString(digest);
}

}  // namespace

Corpus ReadCorpus(const std::string& path, int64_t max_bytes, int64_t longest_sequence) {
  const std::string source = path.empty() ? CompilerHeaders() : path;
  Corpus text;
  text.name = path.empty() ? "C++ headers " + fs::path(source).filename().string()
                           : (fs::path(source) / "").parent_path().filename().string();
  std::error_code error;  // ReadFile reports a path that cannot be looked up.
  const bool is_directory = fs::is_directory(source, error);
  if (is_directory) {
    ReadDirectory(source, max_bytes, text);
  } else {
    text.training = ReadFile(source, max_bytes);
    const size_t length = text.training.size() - text.training.size() / kHeldOut;
    text.held_out = text.training.substr(length);
    text.training.resize(length);
  }
  for (const std::string* const part : {&text.training, &text.held_out}) {
    Require(static_cast<int64_t>(part->size()) > longest_sequence, "--corpus=", source, ": found ",
            text.training.size(), " bytes to train on and ", text.held_out.size(),
            " to hold out, expected more than the ", longest_sequence, " of a sequence of each",
            is_directory
                ? Join("; every tenth file is held out, of those that --text_bytes=", max_bytes, " reaches")
                : "");
  }
  text.sha256 = Sha256Of(text);
  return text;
}

}  // namespace gradsync::bench
