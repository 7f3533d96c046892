#include "bench/presets/options.h"

#include <optional>
#include <utility>

#include "bench/collectives/options.h"
#include "bench/training/compare_options.h"
#include "bench/training/ddp_options.h"
#include "bench/training/memory.h"
#include "comm/factory.h"
#include "comm/rendezvous/world.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using Arguments = std::vector<std::string>;

// The flags that all benchmarks share.
Arguments SharedArguments(const SuiteOptions& options) {
  const RankOptions& ranks = options.ranks;
  Arguments arguments = {
      "--device=" + ranks.device,
      Join("--world_size=", ranks.world_size),
      Join("--threads_per_rank=", ranks.threads_per_rank),
      Join("--comm_threads=", ranks.comm_threads),
      "--placement=" + ranks.placement,
      Join("--timeout=", ranks.timeout.count(), "ms"),
      Join("--seed=", ranks.seed),
  };
  if (!ranks.interface_or_address.empty()) arguments.push_back("--interface=" + ranks.interface_or_address);
  return arguments;
}

Arguments Concatenate(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

comm::World WorldOf(const SuiteOptions& options) {
  comm::World world;
  world.size = world.local_size = static_cast<int>(options.ranks.world_size);
  return world;
}

// Reads `arguments` as the benchmark will.
template <class Options>
void Parse(const Arguments& arguments, FlagTable& flags, Options& options) {
  options.AddTo(flags);
  std::vector<const char*> argv = {"suite"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  flags.Parse(static_cast<int>(argv.size()), argv.data());
}

class Builder {
 public:
  Builder(const SuiteOptions& options, std::vector<std::string>* notes)
      : options_(options), world_(WorldOf(options)), notes_(notes) {}

  void AllReduce(Arguments own) {
    std::string backends;
    for (const std::string& backend : options_.backends) backends += (backends.empty() ? "" : ",") + backend;
    own.push_back("--backend=" + backends);
    Experiment experiment{"all-reduce", "all_reduce", Concatenate(own, SharedArguments(options_)), ""};
    AllReduceOptions parsed;
    FlagTable flags("all_reduce", "");
    Parse(experiment.arguments, flags, parsed);
    CheckAllReduceOptions(parsed, world_);
    experiments_.push_back(std::move(experiment));
  }

  // On every backend, with the first of `models` that fits into this host's memory; without any it is left
  // out.
  void Ddp(const std::string& title, const Arguments& models, const Arguments& own,
           const std::string& subdirectory = "") {
    std::vector<Variant> variants;
    for (const std::string& model : models)
      variants.emplace_back(model + ", " + title, Concatenate({"--model=" + model}, own));
    AddFirstThatFits<DdpOptions>("ddp", variants, subdirectory);
  }

  // Likewise, with the first of `variants`, which have titles and arguments.
  using Variant = std::pair<std::string, Arguments>;
  void Compare(const std::vector<Variant>& variants) {
    AddFirstThatFits<CompareOptions>("compare", variants, "");
  }

  bool on_cpu() const { return options_.ranks.device == "cpu"; }
  void Note(std::string note) { notes_->push_back(std::move(note)); }

  std::vector<Experiment> Take() { return std::move(experiments_); }

 private:
  template <class Options>
  void AddFirstThatFits(const std::string& program, const std::vector<Variant>& variants,
                        const std::string& subdirectory) {
    for (const std::string& backend : options_.backends) {
      const std::string over = options_.backends.size() > 1 ? ", over " + backend : "";
      for (size_t i = 0; i < variants.size(); ++i) {
        Arguments arguments = Concatenate(variants[i].second, options_.peers.Arguments());
        arguments.push_back("--backend=" + backend);
        if (program == "ddp" && !options_.corpus.empty()) arguments.push_back("--corpus=" + options_.corpus);
        Experiment experiment{variants[i].first + over, program,
                              Concatenate(arguments, SharedArguments(options_)), subdirectory};
        const std::string instead =
            i + 1 < variants.size() ? "trying " + variants[i + 1].first + " instead" : "left out";
        if (AddIfItFits<Options>(instead, std::move(experiment))) break;
      }
    }
  }

  // Reads its arguments as the program will. False, and a note of what happens instead, if the host has not
  // the memory.
  template <class Options>
  bool AddIfItFits(const std::string& instead, Experiment experiment) {
    Options parsed;
    FlagTable flags(experiment.program, "");
    Parse(experiment.arguments, flags, parsed);
    parsed.Complete(flags, world_);
    const std::optional<std::string> too_large = TooLargeForThisHost(parsed, world_);
    if (too_large) Note(Join(experiment.title, ": ", instead, ": ", *too_large));
    if (!too_large) experiments_.push_back(std::move(experiment));
    return !too_large;
  }

  const SuiteOptions& options_;
  const comm::World world_;
  std::vector<std::string>* const notes_;
  std::vector<Experiment> experiments_;
};

void Smoke(Builder& builder) {
  builder.AllReduce({"--sizes=4KiB,1MiB", "--iterations=20", "--warmup_iterations=2"});
  builder.Ddp("every strategy", {"tiny"},
              {"--batch_size=2", "--seq_len=64", "--warmup_steps=1", "--steps=5"});
  builder.Compare({{"bucket sizes, a narrow resnet50",
                    {"--width=16", "--image_size=80", "--batch_size=2", "--buffer_elements=256Ki,2Mi",
                     "--warmup_steps=1", "--steps=5"}}});
}

void Quick(Builder& builder) {
  builder.AllReduce({"--sizes=1MiB,10MiB,100MiB", "--iterations=20", "--warmup_iterations=3"});
  // Few tokens, so that three launches fit, and ten steps: with fewer no table says which is fastest.
  builder.Ddp("every strategy", {"small", "tiny"},
              {"--batch_size=1", "--seq_len=64", "--warmup_steps=1", "--steps=4", "--repeats=3"});
  // Half the width has 6.6 Mi elements.
  builder.Compare({{"bucket sizes, resnet50 of half the width",
                    {"--width=32", "--image_size=80", "--batch_size=2", "--buffer_elements=1Mi,3Mi,7Mi",
                     "--warmup_steps=1", "--steps=4", "--repeats=3"}}});
}

void Reference(Builder& builder) {
  const Arguments models = {"xl", "large", "medium", "small", "tiny"};
  builder.AllReduce({"--sizes=1MiB,10MiB,100MiB,1GiB", "--iterations=20", "--warmup_iterations=5"});
  builder.Ddp("the published protocol: one strategy after the other", models,
              {"--strategies=naive,flat,overlap", "--batch_size=4", "--seq_len=256", "--warmup_steps=5",
               "--steps=20", "--order=blocks"});
  builder.Ddp("batch size x sequence length", models,
              {"--batch_size=2,4", "--seq_len=128,256,512", "--warmup_steps=10", "--steps=10"});
  builder.Ddp("traces", models,
              {"--strategies=naive,overlap,core", "--batch_size=2", "--seq_len=128", "--warmup_steps=2",
               "--steps=3", "--trace", "--verify=false"},
              "traces");
  Arguments published = {"--preset=published"};
  if (builder.on_cpu()) {
    published.push_back("--buffer_elements=3Mi,6Mi,12Mi,24Mi,25Mi");
    builder.Note(
        "bucket sizes, resnet50: 5 of the 25 published sizes, because all of them take a CPU many hours; "
        "//bench:compare --preset=published runs them");
  }
  builder.Compare({{"bucket sizes, resnet50", published}, {"bucket sizes, resnet50, scaled", {}}});
}

}  // namespace

void SuiteOptions::AddTo(FlagTable& flags) {
  flags.AddChoice(
      "preset", &preset, {"smoke", "quick", "reference"},
      "smoke: whether everything works, within a minute. quick: a comparison, within ten. reference: the "
      "published experiments, for hours on a CPU.");
  flags.AddChoiceList(
      "backend", &backends, comm::BackendNames(),
      "What moves the gradients; every experiment runs on each. Without it gloo, and quick on a "
      "CPU takes gloo,shm.");
  flags.AddPath("corpus", &corpus, "a text file", "Train on its bytes as tokens, instead of random ones.");
  flags.AddPath("resume", &resume, "the directory of a suite that was stopped",
                "Go on with it: what it has finished is kept, and what it has not is run from its beginning. "
                "Takes no other flag.");
  peers.AddTo(flags);
  ranks.AddTo(flags);
}

std::vector<Experiment> MakeExperiments(SuiteOptions options, std::vector<std::string>* notes) {
  if (options.backends.empty()) {
    options.backends = {"gloo"};
    if (options.preset == "quick" && options.ranks.device == "cpu") options.backends.emplace_back("shm");
  }
  Builder builder(options, notes);
  if (options.preset == "smoke") Smoke(builder);
  if (options.preset == "quick") Quick(builder);
  if (options.preset == "reference") Reference(builder);
  return builder.Take();
}

}  // namespace gradsync::bench
