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

// Bits for each byte of the held-out text, between which a language model's loss is expected.
struct Bounds {
  // The entropy of the held-out text's bytes, each for itself (order 0): no model that does not look at other
  // bytes is better.
  double order0_bits = 0;
  // By how much xz (preset 6, extreme) compresses the training text worse with the held-out text behind it.
  double xz_bits = 0;
};
Bounds BoundsOf(const Corpus& text);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LEARNING_CORPUS_H_
