#include "tools/tables/all_reduce_findings.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/statistics/significance.h"
#include "tools/tables/findings.h"
#include "tools/tables/run_columns.h"

namespace gradsync::tools {
namespace {

constexpr double kLevel = 0.05;
constexpr size_t kMaxTransfers = 400;
constexpr size_t kMaxGroups = 4;
constexpr double kMiB = 1 << 20;
// Bandwidths within this part of the highest are at saturation.
constexpr double kSaturated = 0.9;

std::string SizeText(double size_bytes) { return Join(size_bytes / kMiB, " MB"); }

template <class Item>
void AddOnce(const Item& item, std::vector<Item>* items) {
  if (std::find(items->begin(), items->end(), item) == items->end()) items->push_back(item);
}

std::vector<std::string> BackendsOf(const std::vector<Transfer>& transfers) {
  std::vector<std::string> backends;
  for (const Transfer& transfer : transfers) AddOnce(transfer.backend, &backends);
  return backends;
}

bool IsUsable(const Transfer& transfer) {
  return transfer.world_size > 1 && transfer.size_bytes > 0 && transfer.wrong_elements.value_or(0) == 0 &&
         transfer.times_s.size() >= kFewestForInterval && Mean(transfer.times_s) > 0;
}

double BandwidthOf(const Transfer& transfer) {
  return BusBandwidth(transfer.size_bytes, Mean(transfer.times_s), transfer.world_size);
}

// One size of a backend against the size with the highest bandwidth.
struct Share {
  const Transfer* transfer = nullptr;
  Interval interval;   // of its bandwidth, as a part of the highest
  double p_value = 0;  // that it is just at the bound
  enum { kWithin, kBelow, kOpen } verdict = kOpen;
};

Share ShareOf(const Transfer& transfer, const Transfer& highest, Bootstrap* bootstrap) {
  const double size_ratio = transfer.size_bytes / highest.size_bytes;
  const Interval times = bootstrap->RelativeDifference(transfer.times_s, highest.times_s, Pairing::kNone);
  // Its time, relative to the other's, if it is just at the bound.
  const double relative = size_ratio / kSaturated - 1;
  return {&transfer,
          {size_ratio / (1 + times.high), size_ratio / (1 + times.low)},
          DifferencePValue(transfer.times_s, highest.times_s, Pairing::kNone, relative)};
}

// One backend's sizes, in their order.
struct Curve {
  std::string backend;
  const Transfer* highest = nullptr;
  std::vector<Share> shares;  // of the others
};

std::vector<Curve> CurvesOf(const std::vector<Transfer>& transfers, const BootstrapOptions& options) {
  Bootstrap bootstrap(options);
  std::vector<Curve> curves;
  for (const std::string& backend : BackendsOf(transfers)) {
    Curve curve{.backend = backend, .shares = {}};
    std::vector<const Transfer*> own;
    for (const Transfer& transfer : transfers) {
      if (transfer.backend == backend && IsUsable(transfer)) own.push_back(&transfer);
    }
    if (own.size() < 2) continue;
    std::stable_sort(own.begin(), own.end(),
                     [](const auto* a, const auto* b) { return a->size_bytes < b->size_bytes; });
    curve.highest = *std::max_element(own.begin(), own.end(), [](const auto* a, const auto* b) {
      return BandwidthOf(*a) < BandwidthOf(*b);
    });
    for (const Transfer* transfer : own) {
      if (transfer != curve.highest) curve.shares.push_back(ShareOf(*transfer, *curve.highest, &bootstrap));
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

// For all backends together, because each sentence must hold.
void Judge(std::vector<Curve>* curves) {
  std::vector<double> p_values;
  for (const Curve& curve : *curves) {
    for (const Share& share : curve.shares) p_values.push_back(share.p_value);
  }
  p_values = HolmAdjusted(p_values);
  size_t next = 0;
  for (Curve& curve : *curves) {
    for (Share& share : curve.shares) {
      if (!(p_values[next++] < kLevel)) continue;
      if (share.interval.low > kSaturated) share.verdict = Share::kWithin;
      if (share.interval.high < kSaturated) share.verdict = Share::kBelow;
    }
  }
}

// The smallest size from which on all are within; nothing if that is only the highest itself.
std::optional<double> SaturatedFrom(const Curve& curve) {
  std::vector<std::pair<double, bool>> sizes = {{curve.highest->size_bytes, true}};
  for (const Share& share : curve.shares) {
    sizes.emplace_back(share.transfer->size_bytes, share.verdict == Share::kWithin);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  size_t num_within = 0;
  while (num_within < sizes.size() && sizes[num_within].second) ++num_within;
  if (num_within == 0 || (num_within == 1 && curve.highest->size_bytes == sizes[0].first)) return {};
  return sizes[num_within - 1].first;
}

std::string SentenceOf(const Curve& curve) {
  std::vector<std::string> within;
  std::vector<std::string> below;
  std::vector<std::string> open;
  double largest_bytes = curve.highest->size_bytes;
  for (const Share& share : curve.shares) {
    std::vector<std::string>& sizes = share.verdict == Share::kWithin  ? within
                                      : share.verdict == Share::kBelow ? below
                                                                       : open;
    sizes.push_back(SizeText(share.transfer->size_bytes));
    largest_bytes = std::max(largest_bytes, share.transfer->size_bytes);
  }
  char highest[64];
  std::snprintf(highest, sizeof highest, "%.3g GB/s", BandwidthOf(*curve.highest) / 1e9);
  std::string text = Join("Bus bandwidth of ", curve.backend, " is highest at ",
                          SizeText(curve.highest->size_bytes), " (", highest, ")");
  if (!within.empty()) text += Join(", within 10 % of that at ", ListOf(within));
  if (!below.empty()) text += Join(", lower at ", ListOf(below));
  if (!open.empty()) text += Join(", undecided at ", ListOf(open));
  text += " (95 % CI)";
  if (const std::optional<double> from = SaturatedFrom(curve)) {
    text += Join(": saturated from ", SizeText(*from), " on");
  } else if (curve.highest->size_bytes == largest_bytes && open.empty()) {
    text += ": up to the largest size no saturation is shown";
  }
  return text + ".";
}

}  // namespace

std::vector<std::string> CorrectnessSentences(const std::vector<Transfer>& transfers) {
  std::vector<std::string> wrong;
  bool were_all_checked = !transfers.empty();
  for (const Transfer& transfer : transfers) {
    were_all_checked &= transfer.wrong_elements.has_value();
    if (transfer.wrong_elements.value_or(0) > 0) {
      wrong.push_back(
          Join(*transfer.wrong_elements, " by ", transfer.backend, " at ", SizeText(transfer.size_bytes)));
    }
  }
  if (!wrong.empty())
    return {Join("Wrong elements: ", ListOf(wrong), ". Times of wrong results are not compared.")};
  if (!were_all_checked) return {};
  return {"No element of any result was wrong."};
}

std::vector<std::string> FastestBackendSentences(const std::vector<Transfer>& transfers,
                                                 const BootstrapOptions& bootstrap) {
  if (BackendsOf(transfers).size() < 2) return {};
  std::vector<Place> places;
  for (const Transfer& transfer : transfers) {
    const std::string name = SizeText(transfer.size_bytes);
    auto place =
        std::find_if(places.begin(), places.end(), [&](const Place& other) { return other.name == name; });
    if (place == places.end()) {
      place = places.insert(places.end(), Place{.contenders = {}, .name = name});
    }
    place->contenders.push_back({.strategy = transfer.backend,
                                 .steps_s = transfer.times_s,
                                 .is_interleaved = false,
                                 .flags = transfer.flags});
  }
  return WinnerSentences(places, bootstrap, {.contender = "backend", .place = "size", .at = "at"});
}

std::vector<std::string> SaturationSentences(const std::vector<Transfer>& transfers,
                                             const BootstrapOptions& bootstrap) {
  std::vector<Curve> curves = CurvesOf(transfers, bootstrap);
  Judge(&curves);
  std::vector<std::string> sentences;
  for (const Curve& curve : curves) sentences.push_back(SentenceOf(curve));
  return sentences;
}

void TransferFindings::Add(const Measurement& measurement, const Series& times, const std::string& flags) {
  if (++num_transfers_ > kMaxTransfers) return;
  const bench::Record& record = measurement.record;
  std::string group = Join(record.run_id, ", ", record.world_size, " ranks");
  for (const char* name : {"device", "op", "dtype"}) {
    group += Join(", ", record.config.StringOr(name, ""));
  }
  auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const auto& entry) { return entry.first == group; });
  if (found == groups_.end()) found = groups_.insert(groups_.end(), {group, {}});
  found->second.push_back({record.config.StringOr("backend", ""), ConfigNumber(measurement, "size_bytes"),
                           record.world_size, times.max, measurement.wrong_elements, flags});
}

std::vector<std::string> TransferFindings::Sentences(const BootstrapOptions& bootstrap) const {
  if (num_transfers_ > kMaxTransfers || groups_.size() > kMaxGroups) return {};
  std::vector<std::string> all;
  for (const auto& [name, transfers] : groups_) {
    std::vector<std::string> sentences = CorrectnessSentences(transfers);
    Append(FastestBackendSentences(transfers, bootstrap), &sentences);
    Append(SaturationSentences(transfers, bootstrap), &sentences);
    for (std::string& sentence : sentences) {
      all.push_back(groups_.size() == 1 ? std::move(sentence) : Join("Run ", name, ": ", sentence));
    }
  }
  return all;
}

}  // namespace gradsync::tools
