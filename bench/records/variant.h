#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::bench {

// A variant is one of the things that a benchmark compares: a strategy with its options, over a backend. This
// type reads and writes the text of a variant, which records and command lines contain. It does not check
// whether strategy, options and backend exist; MakeVariants (bench/training/variant.h) does. The text is:
//
//   strategy[:option=value[,option=value...]][@backend[:option=value...]]
//
// A strategy of PyTorch is written pytorch_<strategy>, followed by _compiled if its model is compiled:
// "pytorch_ddp_compiled@gloo". In //bench:all_reduce a variant is only a backend, such as "gloo", or
// kMemoryLimit.
struct Variant {
  // Values of options by name, as texts.
  using Options = std::map<std::string, std::string, std::less<>>;

  std::string framework = {};  // kPyTorch for a strategy of PyTorch; empty for gradsync
  std::string strategy = {};
  Options options = {};      // of the strategy; Parse keeps all given ones, MakeVariants drops default values
  std::string backend = {};  // kNoBackend if the text names none, or if the strategy never communicates
  Options backend_options = {};
  bool compiled = false;
  bool tuned = false;  // true if --tune set some of the options; not part of the text

  // Reads the text of a variant; between options, ':' is accepted in place of ','. Throws InvalidInput if an
  // option has no "=" or is given twice.
  static Variant Parse(std::string_view text);
  // Splits a list of variants, which are separated by commas. Commas between the options of one variant do
  // not separate variants.
  static std::vector<std::string> Split(std::string_view texts);

  // For "core:bucket_bytes=1Mi@gloo", name() returns the whole text, label() returns "core:bucket_bytes=1Mi",
  // and qualified_strategy() returns "core".
  std::string name() const;
  std::string label() const;
  std::string qualified_strategy() const;
  // Returns the backend with its options: "hierarchical:inner=shm,outer=mpi".
  std::string over() const;
  // Returns the value of the strategy's option named `option` as a number ("1Mi" is 2^20). Returns `fallback`
  // if the option is missing or its value is not a number.
  double NumberOr(std::string_view option, double fallback) const;

  bool operator==(const Variant&) const = default;
};

// The value of Variant::backend if the variant's text names no backend. MakeVariants replaces it by a
// backend, unless the strategy never communicates.
inline constexpr char kNoBackend[] = "none";
// A value of --backend of //bench:all_reduce that is no backend. It measures an all-reduce by a plain loop in
// shared memory (bench/collectives/memory_limit.h), whose speed tables show beside the backends' speeds.
inline constexpr char kMemoryLimit[] = "memory_limit";
inline constexpr char kPyTorch[] = "pytorch";

}  // namespace gradsync::bench
