#ifndef GRADSYNC_BENCH_TRAINING_TEST_OPTIONS_H_
#define GRADSYNC_BENCH_TRAINING_TEST_OPTIONS_H_

#include <string>
#include <vector>

#include "bench/training/options.h"

// Options as a command line gives them. For tests.
namespace gradsync::bench {

inline comm::World WorldOf(int size) {
  comm::World world;
  world.size = world.local_size = size;
  return world;
}

inline TrainingOptions Complete(TrainingOptions options, std::vector<const char*> arguments) {
  FlagTable flags("program", "");
  options.AddTo(flags);
  arguments.insert(arguments.begin(), "program");
  flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  options.Complete(flags, WorldOf(2));
  return options;
}

inline TrainingOptions Parse(const std::vector<const char*>& arguments) {
  return Complete(TrainingOptions(), arguments);
}

inline std::vector<std::string> NamesOf(const TrainingOptions& options) {
  std::vector<std::string> names;
  for (const TrainingVariant& variant : options.variants) names.push_back(variant.name());
  return names;
}

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_TEST_OPTIONS_H_
