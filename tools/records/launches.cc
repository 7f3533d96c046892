#include "tools/records/launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// What launches of one measurement have in common; empty if it belongs to no set.
std::string LaunchKeyOf(const Measurement& measurement) {
  const bench::Record& record = measurement.record;
  const std::string set = record.facts.StringOr("launch_set", "");
  if (set.empty()) return "";
  return Join(set, "\n", record.experiment, "\n", record.world_size, "\n", KeyOf(ConfigurationOf(record)));
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
      const auto found = places.find(LaunchKeyOf(measurement));
      if (found != places.end()) target = std::min(target, found->second.group);
    }
    if (target == groups.size()) groups.emplace_back();
    for (Measurement& measurement : group) {
      const std::string key = LaunchKeyOf(measurement);
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
