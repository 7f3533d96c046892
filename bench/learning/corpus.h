#pragma once

#include <cstdint>
#include <string>

namespace gradsync::bench {

// The training text of a model, by bytes, and the held-out text, which it never sees in training.
struct Corpus {
  std::string name;  // the last part of its path, for people
  std::string training;
  std::string held_out;
  std::string sha256;  // of both parts and their boundary, in hexadecimal digits
};

// A directory: its files, including its directories' files, in the order of their paths, up to `max_bytes`;
// every tenth file is held out. A file: its first `max_bytes`; the last tenth is held out. Empty: the
// directory of the C++ compiler's headers, which exists wherever gradsync builds. Throws InvalidInput, one
// line that starts with --corpus, if it cannot be read, or if a part is not longer than `longest_sequence`.
Corpus ReadCorpus(const std::string& path, int64_t max_bytes, int64_t longest_sequence);

}  // namespace gradsync::bench
