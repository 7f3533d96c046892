#include "tools/records/launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// What launches of one measurement have in common; empty if it belongs to no set.
std::string KeyOf(const Measurement& measurement) {
  const bench::Record& record = measurement.record;
  const std::string set = record.facts.StringOr("launch_set", "");
  if (set.empty()) return "";
  std::map<std::string_view, std::string> config;  // in whatever order it was written
  for (const auto& [name, value] : record.config) {
    if (name == "seed" || name == "placement") continue;
    std::visit([&, key = &name](const auto& held) { config[*key] = Join(held); }, value);
  }
  std::string key = Join(set, "\n", record.experiment, "\n", record.world_size);
  for (const auto& [name, value] : config) key += Join("\n", name, "=", value);
  return key;
}

}  // namespace

void JoinLaunches(RecordSet* records) {
  struct Place {
    size_t group = 0;
    size_t number = 0;
  };
  std::map<std::string, Place> places;  // of what is there already
  std::vector<Group> groups;
  for (Group& group : records->groups) {
    // Where the group's own strategies are, or a new group.
    size_t target = groups.size();
    for (const Measurement& measurement : group) {
      const auto found = places.find(KeyOf(measurement));
      if (found != places.end()) target = std::min(target, found->second.group);
    }
    if (target == groups.size()) groups.emplace_back();
    for (Measurement& measurement : group) {
      const std::string key = KeyOf(measurement);
      const auto found = key.empty() ? places.end() : places.find(key);
      if (found != places.end()) {
        Measurement& first = groups[found->second.group][found->second.number];
        if (AddLaunch(measurement, &first)) continue;
      }
      groups[target].push_back(std::move(measurement));
      if (!key.empty()) places.try_emplace(key, Place{target, groups[target].size() - 1});
    }
  }
  std::erase_if(groups, [](const Group& group) { return group.empty(); });
  records->groups = std::move(groups);
}

}  // namespace gradsync::tools
