#ifndef GRADSYNC_TOOLS_PREDICT_LINK_COSTS_H_
#define GRADSYNC_TOOLS_PREDICT_LINK_COSTS_H_

#include <map>
#include <string_view>
#include <vector>

#include "tools/predict/curve.h"

namespace gradsync::tools {

enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather };
// The kind that a record names, such as "reduce_scatter"; anything unknown is an all-reduce.
CollectiveKind KindOf(std::string_view name);

// So many collectives of one size at the same time, on a machine where nothing else runs.
struct CollectiveCost {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int in_flight = 1;
  double bytes = 0;    // of one: what an all-reduce sums, a reduce-scatter takes, an all-gather gives
  double seconds = 0;  // from the moment the last rank has issued them until all are done
  // What communication uses of one rank's processors meanwhile, in CPU-seconds a second.
  double processor = 0;
};

// What collectives between all ranks take, whatever their size.
class LinkCosts {
 public:
  // `costs`: at least one of an all-reduce alone. Several of one size count as their mean.
  // `channels`: how many collectives run at the same time; those that are issued later wait their turn.
  explicit LinkCosts(const std::vector<CollectiveCost>& costs, int channels = 1);

  int channels() const { return channels_; }
  bool has(CollectiveKind kind) const { return curves_.contains(kind); }

  // The time of one alone. A kind without costs takes half an all-reduce of the size.
  double Seconds(CollectiveKind kind, double bytes) const;
  // What so many of that size use of a rank's processors. More than were measured use what the most did.
  double Processor(CollectiveKind kind, double bytes, int in_flight) const;
  // How much faster so many together are than one after the other; below 1 where they hinder each other.
  double Gain(CollectiveKind kind, double bytes, int in_flight) const;

  // With every time multiplied, as if the link were that much slower.
  LinkCosts Scaled(double factor) const;
  // With this use of processors, whatever the size.
  LinkCosts WithProcessor(double processor) const;

 private:
  struct Curves {
    Curve seconds, processor;
  };
  using ByInFlight = std::map<int, Curves>;

  const ByInFlight& Of(CollectiveKind kind) const;

  std::map<CollectiveKind, ByInFlight> curves_;
  int channels_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_LINK_COSTS_H_
