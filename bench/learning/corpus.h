#pragma once

#include <cstdint>
#include <string>

namespace gradsync::bench {

// A training text, as bytes, and a held-out text, on which no model is trained.
struct Corpus {
  std::string name;  // the last part of the path, for users
  std::string training;
  std::string held_out;
  std::string sha256;  // SHA-256 of both parts and their boundary, in hexadecimal digits
};

// Reads a text. If `path` is a directory, the text has whole files of the directory and its subdirectories,
// in the order of their paths, up to `max_bytes`, and every tenth file is held out. If `path` is a file, the
// text is the first `max_bytes` bytes, and the last tenth is held out. If `path` is empty, reads the
// directory of the C++ compiler's headers, which exists on every machine that builds gradsync. Throws
// InvalidInput, one line that starts with --corpus, if the text cannot be read, or if a part is not longer
// than `longest_sequence`.
Corpus ReadCorpus(const std::string& path, int64_t max_bytes, int64_t longest_sequence);

}  // namespace gradsync::bench
