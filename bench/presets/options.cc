#include "bench/presets/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "bench/collectives/options.h"
#include "bench/launch/flag_marks.h"
#include "bench/records/variant.h"
#include "comm/factory.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using Arguments = std::vector<std::string>;

// Returns the flags for the values of these options that differ from the defaults.
template <class Options>
Arguments ArgumentsOf(Options options) {
  FlagTable flags("", ""), of_defaults("", "");
  Options defaults;
  options.AddTo(flags);
  defaults.AddTo(of_defaults);
  const auto by_default = of_defaults.Values(/*except=*/kOutput);
  Arguments arguments;
  for (const auto& flag : flags.Values(/*except=*/kOutput)) {
    if (std::ranges::count(by_default, flag) == 0) arguments.push_back(Join(flag.first, "=", flag.second));
  }
  return arguments;
}

Arguments Concatenate(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A run, and its name.
struct Choice {
  std::string title;
  Arguments arguments;
};

std::vector<Choice> OfModels(const Arguments& models, const std::string& title, const Arguments& own) {
  std::vector<Choice> choices;
  for (const std::string& model : models)
    choices.push_back({model + ", " + title, Concatenate({"--model=" + model}, own)});
  return choices;
}

class Builder {
 public:
  explicit Builder(const SuiteOptions& options) : options_(options) {}

  void AllReduce(Arguments own) {
    RankOptions ranks = options_.ranks;
    ranks.computes = AllReduceOptions().ranks.computes;
    experiments_.push_back({{"all-reduce", "all_reduce", Concatenate(std::move(own), Shared(ranks)), ""}});
  }

  void Train(const std::vector<Choice>& choices, const std::string& subdirectory = "") {
    Arguments more = ArgumentsOf(options_.peers);
    if (!options_.corpus.empty()) more.push_back("--corpus=" + options_.corpus);
    Add("ddp", choices, more, subdirectory);
  }
  void CompareBuckets(const std::vector<Choice>& choices) {
    Add("compare", choices, ArgumentsOf(options_.peers), "");
  }

  bool on_cpu() const { return options_.ranks.on_cpu(); }

  std::vector<Alternatives> Take() { return std::move(experiments_); }

 private:
  // Adds a run of the program, with the first of `choices` that fits into this host's memory.
  void Add(const std::string& program, const std::vector<Choice>& choices, const Arguments& more,
           const std::string& subdirectory) {
    Alternatives& alternatives = experiments_.emplace_back();
    for (const Choice& choice : choices) {
      Arguments arguments = Concatenate(Concatenate(choice.arguments, more), Shared(options_.ranks));
      alternatives.push_back({choice.title, program, std::move(arguments), subdirectory});
    }
  }

  // Returns the arguments that all experiments have.
  Arguments Shared(const RankOptions& ranks) const {
    return Concatenate(ArgumentsOf(ranks), {"--backend=" + absl::StrJoin(options_.backends, ",")});
  }

  const SuiteOptions& options_;
  std::vector<Alternatives> experiments_;
};

void Smoke(Builder& builder) {
  builder.AllReduce({"--sizes=4KiB,1MiB", "--iterations=20", "--warmup_iterations=2"});
  builder.Train(OfModels({"tiny"}, "every strategy",
                         {"--batch_size=2", "--seq_len=64", "--warmup_steps=1", "--steps=5"}));
  builder.CompareBuckets({{"bucket sizes, a narrow resnet50",
                           {"--width=16", "--image_size=80", "--batch_size=2", "--buffer_elements=256Ki,2Mi",
                            "--warmup_steps=1", "--steps=5"}}});
}

// Six minutes on two cores, because long experiments have a limit of time, or the fewest rounds.
// The small model decides between strategies: it has the most rounds, and its first launch leaves the other
// launches to the rows that may be the fastest. The larger model shows the cost of synchronisation for long
// computations, with rows that were fastest elsewhere. Every claim has at least ten rounds, and rounds are
// whole blocks (bench/timing/schedule.h), so the time of the first launch grows with the square of the number
// of its rows. Not included are bucketed_sync, which was nowhere the fastest; zero2, which saves memory that
// nothing here measures; and zero1:gather=forward over shm, because there zero1 gathers nothing. A turn of
// zero1:gather=forward has four steps.
void Quick(const SuiteOptions& options, Builder& builder) {
  std::string forward, fastest;
  for (const std::string& backend : options.backends) {
    const bool is_within_host = comm::TraitsOf(Variant::Parse("@" + backend).backend).is_within_host;
    if (!is_within_host) forward += ",zero1:gather=forward@" + backend;
    fastest += Join(",zero1", is_within_host ? "" : ":gather=forward", "@", backend);
  }
  builder.AllReduce({"--sizes=1MiB,10MiB,100MiB", "--iterations=20", "--warmup_iterations=3"});
  builder.Train(OfModels({"tiny"}, "exact strategies",
                         {"--variants=none,naive,flat,overlap,bucketed_async,core,core:rows=1,core_update,"
                          "zero1" +
                              forward,
                          "--batch_size=2", "--seq_len=64", "--warmup_steps=1", "--time=3m", "--choose"}));
  builder.Train(OfModels({"small"}, "exact strategies that could win",
                         {"--variants=none,core" + fastest, "--batch_size=1", "--seq_len=64",
                          "--warmup_steps=1", "--time=2m20s"}));
  builder.Train(
      OfModels({"tiny"}, "a traced step of each strategy",
               {"--strategies=naive,flat,overlap,bucketed_async,core,core_update,zero1", "--batch_size=2",
                "--seq_len=64", "--warmup_steps=1", "--steps=1", "--trace", "--verify=false"}),
      "traces");
  // A ResNet-50 of half the width has 6.6 Mi elements.
  builder.CompareBuckets(
      {{"bucket sizes, resnet50 of half the width",
        {"--strategies=core,bucketed_async", "--width=32", "--image_size=80", "--batch_size=2",
         "--buffer_elements=1Mi,7Mi", "--warmup_steps=1", "--steps=16"}}});
}

void Reference(Builder& builder) {
  const Arguments models = {"xl", "large", "medium", "small", "tiny"};
  builder.AllReduce({"--sizes=1MiB,10MiB,100MiB,1GiB", "--iterations=20", "--warmup_iterations=5"});
  builder.Train(OfModels(models, "the published protocol: one strategy after the other",
                         {"--strategies=naive,flat,overlap", "--batch_size=4", "--seq_len=256",
                          "--warmup_steps=5", "--steps=20", "--order=blocks"}));
  builder.Train(OfModels(models, "batch size x sequence length",
                         {"--batch_size=2,4", "--seq_len=128,256,512", "--warmup_steps=10", "--steps=14"}));
  builder.Train(OfModels(models, "traces",
                         {"--strategies=naive,overlap,core", "--batch_size=2", "--seq_len=128",
                          "--warmup_steps=2", "--steps=3", "--trace", "--verify=false"}),
                "traces");
  Choice published = {"bucket sizes, resnet50", {"--preset=published"}};
  if (builder.on_cpu()) {
    published.title += ": 5 of the 25 published ones, because all of them take a CPU many hours";
    published.arguments.emplace_back("--buffer_elements=3Mi,6Mi,12Mi,24Mi,25Mi");
  }
  builder.CompareBuckets({published, {"bucket sizes, resnet50, scaled", {}}});
}

}  // namespace

std::string_view Name(Preset preset) {
  constexpr std::string_view kNames[] = {"smoke", "quick", "reference"};
  return kNames[static_cast<size_t>(preset)];
}

std::string_view Length(Preset preset) {
  constexpr std::string_view kLengths[] = {"a minute", "6 minutes on two cores", "hours on a CPU"};
  return kLengths[static_cast<size_t>(preset)];
}

void SuiteOptions::AddTo(FlagTable& flags) {
  flags.Add("preset", &preset, OneOf({Preset::kSmoke, Preset::kQuick, Preset::kReference}),
            Join("Runs these experiments.\nsmoke: whether everything works (", Length(Preset::kSmoke),
                 "). quick: a comparison (", Length(Preset::kQuick),
                 "). reference: the published experiments (", Length(Preset::kReference), ")."));
  flags.Add(
      "backend", &backends, OneOf(comm::BackendNames()),
      "Moves the gradients over these backends, in every experiment.\nDefault: gloo; for quick on a CPU "
      "gloo,shm.");
  flags.Add("corpus", &corpus, Path("a text file"),
            "Trains on this text, whose bytes are the tokens, instead of random tokens.");
  peers.AddTo(flags);
  ranks.AddTo(flags);
}

std::vector<Alternatives> MakeExperiments(SuiteOptions options) {
  if (options.backends.empty()) {
    options.backends = {"gloo"};
    if (options.preset == Preset::kQuick && options.ranks.on_cpu()) options.backends.emplace_back("shm");
  }
  Builder builder(options);
  if (options.preset == Preset::kSmoke) Smoke(builder);
  if (options.preset == Preset::kQuick) Quick(options, builder);
  if (options.preset == Preset::kReference) Reference(builder);
  return builder.Take();
}

}  // namespace gradsync::bench
