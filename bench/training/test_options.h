#pragma once

#include <string>
#include <vector>

#include "bench/training/plan.h"
#include "comm/testing/errors.h"
#include "model/base/error.h"

// Helpers for tests: functions that make a TrainingPlan from the arguments of a command line.
namespace gradsync::bench {

inline comm::World WorldOf(int size) {
  comm::World world;
  world.size = world.local_size = size;
  return world;
}

inline TrainingPlan PlanOf(TrainingOptions options, std::vector<const char*> arguments) {
  FlagTable flags("program", "");
  options.AddTo(flags);
  arguments.insert(arguments.begin(), "program");
  flags.Parse(static_cast<int>(arguments.size()), arguments.data());
  return TrainingPlan(options, flags);
}

inline TrainingPlan Parse(const std::vector<const char*>& arguments) {
  return PlanOf(TrainingOptions(), arguments);
}

// Returns the message of the InvalidInput that the function Parse throws for the command line `arguments`;
// "no error" if Parse does not throw.
inline std::string RefusalOf(const std::vector<const char*>& arguments) {
  return comm::ErrorOf<InvalidInput>([&] { Parse(arguments); });
}

inline std::vector<std::string> NamesOf(const TrainingPlan& plan) {
  std::vector<std::string> names;
  for (const TrainingVariant& variant : plan.variants) names.push_back(variant.name());
  return names;
}

}  // namespace gradsync::bench
