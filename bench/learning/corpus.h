#pragma once

#include <cstdint>
#include <string>

namespace gradsync::bench {

// A text, as bytes, divided into the parts `training` and `held_out`. Models are trained on the part
// `training`. Their loss is measured on the part `held_out`, on which no model is trained.
struct Corpus {
  std::string name;  // the last part of the path; without a path such as "C++ headers 12"
  std::string training;
  std::string held_out;
  std::string sha256;  // SHA-256 of both parts and their boundary, in hexadecimal digits
};

// Reads a text and divides it into a training part and a held-out part. If `path` is a directory, reads whole
// files of this directory and its subdirectories, in the order of the files' paths, until the text has at
// least `max_bytes` bytes or all files are read; every tenth file goes into the held-out part. If `path` is a
// file, reads its first `max_bytes` bytes, of which the last tenth becomes the held-out part. If `path` is
// empty, reads the directory /usr/include/c++/<newest version> (C++ headers), as if `path` named it. Throws
// InvalidInput, with a line that starts with --corpus, if the text cannot be read, or if the training or the
// held-out part is not longer than `longest_sequence` bytes.
Corpus ReadCorpus(const std::string& path, int64_t max_bytes, int64_t longest_sequence);

}  // namespace gradsync::bench
