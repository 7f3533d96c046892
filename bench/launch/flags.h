#ifndef GRADSYNC_BENCH_LAUNCH_FLAGS_H_
#define GRADSYNC_BENCH_LAUNCH_FLAGS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Command-line flags that are read into a struct of options.
//
// A small table rather than Abseil's flags, for two reasons: a bad value has to end in exactly one line that
// says what the flag takes, with exit status 2; and options have to be values, so that a test, or the suite,
// can parse a command line without touching globals.
namespace gradsync::bench {

// The flags of one program. The targets given to Add... must outlive the table; their values at that moment
// are the defaults that Usage shows.
class FlagTable {
 public:
  // `summary`: what the program does, in one or more lines.
  FlagTable(std::string program, std::string summary)
      : program_(std::move(program)), summary_(std::move(summary)) {}

  // Usage shows the flags that are added from here on under this title.
  void BeginGroup(std::string title) { group_ = std::move(title); }

  // --name and --name=true|false.
  void AddBool(std::string name, bool* target, std::string help);
  // A decimal integer in [min, max].
  void AddInt(std::string name, int64_t* target, int64_t min, int64_t max, std::string help);
  // The same, comma separated, at least one.
  void AddIntList(std::string name, std::vector<int64_t>* target, int64_t min, int64_t max, std::string help);
  // One of `choices`.
  void AddChoice(std::string name, std::string* target, std::vector<std::string> choices, std::string help);
  // Some of `choices`, comma separated, at least one, none twice.
  void AddChoiceList(std::string name, std::vector<std::string>* target, std::vector<std::string> choices,
                     std::string help);
  // A positive number of bytes, see ParseByteCount.
  void AddByteCount(std::string name, int64_t* target, std::string help);
  // The same, comma separated, and ranges: "4KiB,8..1GiB*4" is 4096, 8, 32, ... in steps of a factor, 2
  // unless given.
  void AddByteCountList(std::string name, std::vector<int64_t>* target, std::string help);
  // Positive numbers of elements, see ParseElementCount.
  void AddElementCountList(std::string name, std::vector<int64_t>* target, std::string help);
  // See ParseDuration.
  void AddDuration(std::string name, std::chrono::milliseconds* target, std::string help);
  // A positive decimal number.
  void AddPositiveDouble(std::string name, double* target, std::string help);
  // The same, left empty unless given.
  void AddOptionalDouble(std::string name, std::optional<double>* target, std::string what, std::string help);
  // A positive share such as "2%", which is 0.02; left empty unless given.
  void AddOptionalPercent(std::string name, std::optional<double>* target, std::string help);
  // A path, not empty. Relative ones count from where the user typed the command, also under `bazel run`.
  void AddPath(std::string name, std::string* target, std::string what, std::string help);
  // Any text but none.
  void AddText(std::string name, std::string* target, std::string what, std::string help);
  // An integer of at least 1, left empty unless given.
  void AddOptionalInt(std::string name, std::optional<int64_t>* target, std::string help);

  // Files or directories that are named without a flag; none unless allowed so. `what`: for the usage.
  void AllowPaths(std::vector<std::string>* target, std::string what);

  // Reads "--name=value", "--name value" and, for a bool, "--name". Throws InvalidInput with one line that
  // names the flag, what was given and what it takes, for an unknown flag (and names the one that was perhaps
  // meant), a bad value, a flag given twice, or an argument that is no flag. After --help nothing more is
  // read, and help_requested() is true.
  void Parse(int argc, const char* const* argv);

  bool help_requested() const { return help_requested_; }
  // Whether Parse found the flag on the command line.
  bool given(std::string_view name) const;
  // Each flag but those named, "--" before it, with its value as it was given, or by default.
  std::vector<std::pair<std::string, std::string>> Values(const std::vector<std::string>& except) const;
  // The summary, and, by groups, each flag with what it takes and its default.
  std::string Usage() const;

 private:
  struct Flag {
    std::string name;
    std::string takes;          // "a byte count such as ..."
    std::string default_value;  // empty: none
    std::string help;
    std::function<bool(std::string_view)> set;  // false: not what the flag takes
    bool is_bool = false;
    std::string group = {};
    bool given = false;
    std::string text{};  // the value, if given
  };

  void Add(Flag flag);
  Flag& Find(std::string_view name);

  const std::string program_;
  const std::string summary_;
  std::vector<Flag> flags_;
  std::string group_;  // of flags to be added
  std::vector<std::string>* paths_ = nullptr;
  std::string paths_help_;
  bool help_requested_ = false;
};

// `path` made absolute: a relative one counts from BUILD_WORKING_DIRECTORY, which `bazel run` sets, and
// otherwise from the current directory.
std::string ResolvePath(std::string_view path);

// The parts of `text` between commas.
std::vector<std::string_view> SplitCommas(std::string_view text);

// "a", "a or b", "a, b or c".
std::string JoinChoices(const std::vector<std::string>& choices);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_FLAGS_H_
