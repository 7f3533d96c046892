#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::bench {

// A variant takes turns with other variants in a run. This type reads and writes the text of a variant in
// records and on command lines, without checking names. bench/training/variant.h checks strategies, backends
// and options. The text is:
//
//   strategy[:option=value[,option=value...]][@backend[:option=value...]]
//
// A strategy of another framework is written framework_strategy, followed by _compiled if its model is
// compiled: "pytorch_ddp_compiled@gloo". A variant of a collective has a backend and no strategy: "gloo".
struct Variant {
  // Values of options by name, as texts.
  using Options = std::map<std::string, std::string, std::less<>>;

  std::string framework = {};  // name of another framework; empty for gradsync
  std::string strategy = {};
  Options options = {};      // options that differ from their defaults
  std::string backend = {};  // backend, or kNoBackend if the variant never communicates
  Options backend_options = {};
  bool compiled = false;
  bool tuned = false;  // true if --tune selected the options; not part of the text

  // Reads a variant. ':' may also separate options. Throws InvalidInput for an option that has no "=" or is
  // given twice.
  static Variant Parse(std::string_view text);
  // Splits a list of variants at commas, and keeps the commas between options of one variant.
  static std::vector<std::string> Split(std::string_view texts);

  // These functions return the whole text, "core:bucket_bytes=1Mi@gloo"; the text without the backend; and
  // the text without backend and options.
  std::string name() const;
  std::string label() const;
  std::string qualified_strategy() const;
  // Returns the backend with its options: "hierarchical:inner=shm,outer=mpi".
  std::string over() const;
  // Returns an option's value as a number, which may have the suffix of a count ("1Mi"); `fallback` if the
  // option is missing or not a number.
  double NumberOr(std::string_view option, double fallback) const;

  bool operator==(const Variant&) const = default;
};

// The backend of a variant that sends nothing.
inline constexpr char kNoBackend[] = "none";
// A value of --backend that is not a backend, but the limit of memory (bench/collectives/memory_limit.h).
inline constexpr char kMemoryLimit[] = "memory_limit";
// The only other framework.
inline constexpr char kPyTorch[] = "pytorch";

}  // namespace gradsync::bench
