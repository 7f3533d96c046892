#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::bench {

// What takes turns with others in a run, as records and command lines name it. It knows no strategy, backend
// or option: bench/training/variant.h says which there are. Its text is made and read here and nowhere else:
//
//   strategy[:option=value[,option=value...]][@backend[:option=value...]]
//
// A strategy of another framework is written framework_strategy, with _compiled behind it if its model is
// compiled: "pytorch_ddp_compiled@gloo". A collective alone has no strategy: "gloo".
struct Variant {
  // Values by name, as they are written.
  using Options = std::map<std::string, std::string, std::less<>>;

  std::string framework = {};  // empty: gradsync
  std::string strategy = {};
  Options options = {};      // those that differ from their defaults
  std::string backend = {};  // kNoBackend if it never communicates
  Options backend_options = {};
  bool compiled = false;
  bool tuned = false;  // whether its options are the best of those that were tried; not part of the text

  // Options are also read with ':' between them. Throws InvalidInput for an option that has no "=" or is
  // given twice.
  static Variant Parse(std::string_view text);
  // The variants between commas; a comma may also stand between options.
  static std::vector<std::string> Split(std::string_view texts);

  // All of it, "core:bucket_bytes=1Mi@gloo"; that without its backend; and that without its options.
  std::string name() const;
  std::string label() const;
  std::string qualified_strategy() const;
  // The backend with its options: "hierarchical:inner=shm,outer=mpi".
  std::string over() const;
  // An option's value as a number, which may end as a count does ("1Mi"); `fallback` if it is not given or no
  // number.
  double NumberOr(std::string_view option, double fallback) const;

  bool operator==(const Variant&) const = default;
};

// The backend of a variant that sends nothing.
inline constexpr char kNoBackend[] = "none";
// A value of --backend that is no backend: what memory allows (bench/collectives/memory_limit.h).
inline constexpr char kMemoryLimit[] = "memory_limit";
// The one other framework.
inline constexpr char kPyTorch[] = "pytorch";

}  // namespace gradsync::bench
