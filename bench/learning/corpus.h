#ifndef GRADSYNC_BENCH_LEARNING_CORPUS_H_
#define GRADSYNC_BENCH_LEARNING_CORPUS_H_

#include <cstdint>
#include <string>

namespace gradsync::bench {

// What a model is trained on, byte by byte, and what it is judged by, which it never sees in training.
struct Corpus {
  std::string name;  // for people: the last part of its path
  std::string training;
  std::string held_out;
  std::string sha256;  // of both parts and of where one ends, in hexadecimal digits
};

// A directory: its files, those of its directories included, in the order of their paths, until `max_bytes`
// are reached; every tenth file is held out. A file: its first `max_bytes`, of which the last tenth is held
// out. Empty: the directory of the C++ compiler's own headers, which exists wherever gradsync builds. Throws
// InvalidInput, with a line that begins with --corpus, if it cannot be read, or if one of the parts would not
// be longer than `longest_sequence`.
Corpus ReadCorpus(const std::string& path, int64_t max_bytes, int64_t longest_sequence);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_CORPUS_H_
