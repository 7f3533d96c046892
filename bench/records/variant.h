#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::bench {

// A variant is one of the things that a benchmark compares: a strategy with its options, and the backend,
// such as gloo, over which it communicates. The struct Variant parses and prints the text by which command
// lines and tables name a variant. Variant does not check that strategy, options and backend exist;
// MakeVariants (bench/training/variant.h) does. The text of a variant is:
//
//   strategy[:option=value[,option=value...]][@backend[:option=value...]]
//
// A strategy of PyTorch is written pytorch_<strategy>, followed by _compiled if it trains a model compiled by
// torch.compile: "pytorch_ddp_compiled@gloo". //bench:all_reduce measures no strategies: its variants are
// only backends, such as "gloo", or kMemoryLimit.
struct Variant {
  // Maps the names of options to their values, which are texts.
  using Options = std::map<std::string, std::string, std::less<>>;

  std::string framework = {};  // kPyTorch for a strategy of PyTorch; empty for gradsync
  std::string strategy = {};
  Options options = {};      // of the strategy; Parse keeps all given ones, MakeVariants drops default values
  std::string backend = {};  // kNoBackend if the text names none, or if the strategy never communicates
  Options backend_options = {};
  bool compiled = false;
  bool tuned = false;  // true if --tune set some of the options; not part of the text

  // Returns the variant of a text such as "core:bucket_bytes=1Mi@gloo". In `text`, options may be separated
  // by ':' as well as by ','. Throws InvalidInput if an option has no "=" or is given twice.
  static Variant Parse(std::string_view text);
  // Splits a list of variants' texts at the commas between variants, and returns the texts. Split does not
  // split at the commas between the options of one variant.
  static std::vector<std::string> Split(std::string_view texts);

  // For "core:bucket_bytes=1Mi@gloo", name() returns the whole text, and label() returns
  // "core:bucket_bytes=1Mi". qualified_strategy() returns only the strategy, such as "core" or
  // "pytorch_ddp_compiled".
  std::string name() const;
  std::string label() const;
  std::string qualified_strategy() const;
  // Returns the text of the variant's backend and of the backend's options, such as
  // "hierarchical:inner=shm,outer=mpi".
  std::string over() const;
  // Returns the value of the strategy's option named `option` as a number ("1Mi" is 2^20). Returns `fallback`
  // if the option is missing or its value is not a number.
  double NumberOr(std::string_view option, double fallback) const;

  bool operator==(const Variant&) const = default;
};

// Variant::Parse sets Variant::backend to kNoBackend if the text names no backend. From a text without a
// backend, MakeVariants makes variants for each backend that the flag --backend names. But for a strategy
// that never communicates, MakeVariants makes only one variant, with the backend kNoBackend.
inline constexpr char kNoBackend[] = "none";
// A value of the flag --backend of //bench:all_reduce that names no backend. With this value, the program
// measures a simple loop that computes an all-reduce in shared memory (bench/collectives/memory_limit.h). The
// table of the program's results shows the loop's speed beside the backends' speeds.
inline constexpr char kMemoryLimit[] = "memory_limit";
inline constexpr char kPyTorch[] = "pytorch";

}  // namespace gradsync::bench
