#include "tools/predict/link_costs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// The most that were measured together, but no more than `in_flight`.
template <class Map>
const typename Map::value_type& AtMost(const Map& by_in_flight, int in_flight) {
  const auto next = by_in_flight.upper_bound(in_flight);
  return next == by_in_flight.begin() ? *next : *std::prev(next);
}

}  // namespace

CollectiveKind KindOf(std::string_view name) {
  return name == "reduce_scatter" ? CollectiveKind::kReduceScatter
         : name == "all_gather"   ? CollectiveKind::kAllGather
                                  : CollectiveKind::kAllReduce;
}

LinkCosts::LinkCosts(const std::vector<CollectiveCost>& costs, int channels) : channels_(channels) {
  std::map<std::pair<CollectiveKind, int>, std::pair<std::vector<Curve::Point>, std::vector<Curve::Point>>>
      points;
  for (const CollectiveCost& cost : costs) {
    auto& [seconds, processor] = points[{cost.kind, cost.in_flight}];
    seconds.emplace_back(cost.bytes, cost.seconds);
    processor.emplace_back(cost.bytes, cost.processor);
  }
  for (auto& [key, both] : points) {
    curves_[key.first].emplace(key.second,
                               Curves{Curve(std::move(both.first)), Curve(std::move(both.second))});
  }
  Require(has(CollectiveKind::kAllReduce) && Of(CollectiveKind::kAllReduce).contains(1),
          "no single all-reduce was measured");
}

const LinkCosts::ByInFlight& LinkCosts::Of(CollectiveKind kind) const {
  const auto found = curves_.find(kind);
  return found == curves_.end() ? curves_.at(CollectiveKind::kAllReduce) : found->second;
}

double LinkCosts::Seconds(CollectiveKind kind, double bytes) const {
  const double seconds = Of(kind).begin()->second.seconds.TimeAt(bytes);
  return has(kind) ? seconds : seconds / 2;
}

double LinkCosts::Processor(CollectiveKind kind, double bytes, int in_flight) const {
  return AtMost(Of(kind), in_flight).second.processor.RatioAt(bytes);
}

double LinkCosts::Gain(CollectiveKind kind, double bytes, int in_flight) const {
  const ByInFlight& all = Of(kind);
  const auto& [together, curves] = AtMost(all, in_flight);
  return together * all.begin()->second.seconds.TimeAt(bytes) / curves.seconds.TimeAt(bytes);
}

LinkCosts LinkCosts::Scaled(double factor) const {
  LinkCosts scaled = *this;
  for (auto& [kind, by_in_flight] : scaled.curves_) {
    for (auto& [in_flight, curves] : by_in_flight) curves.seconds = curves.seconds.Scaled(factor);
  }
  return scaled;
}

LinkCosts LinkCosts::WithProcessor(double processor) const {
  LinkCosts changed = *this;
  for (auto& [kind, by_in_flight] : changed.curves_) {
    for (auto& [in_flight, curves] : by_in_flight) curves.processor = Curve({{0, processor}});
  }
  return changed;
}

}  // namespace gradsync::tools
