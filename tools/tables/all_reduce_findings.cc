#include "tools/tables/all_reduce_findings.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "bench/records/strategy_name.h"
#include "bench/records/units.h"
#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMaxTransfers = Contest::kMaxVariants;
constexpr double kMiB = 1 << 20;
// Bandwidths within this part of the highest are at saturation.
constexpr double kSaturated = 0.9;

std::string SizeText(double size_bytes) {
  return size_bytes < kMiB ? bench::FormatByteCount(static_cast<int64_t>(size_bytes))
                           : Join(size_bytes / kMiB, " MB");
}

bool IsUsable(const Transfer& transfer) {
  return transfer.world_size > 1 && transfer.size_bytes > 0 && transfer.wrong_elements.value_or(0) == 0 &&
         transfer.times.values.size() >= kFewestForInterval && Mean(transfer.times.values) > 0;
}

double BandwidthOf(const Transfer& transfer) {
  return BusBandwidth(transfer.size_bytes, Mean(transfer.times.values), transfer.world_size,
                      transfer.collective);
}

// One size of a backend against the size with the highest bandwidth.
struct Share {
  const Transfer* transfer = nullptr;
  size_t number = Intervals::kNone;
  Interval interval{};  // of its bandwidth, as a part of the highest
};

// One backend's sizes in one run, in their order.
struct Curve {
  const Transfer* highest = nullptr;
  std::vector<Share> shares;  // of the others
};

std::vector<Curve> CurvesOf(const std::vector<Transfer>& transfers, const BootstrapOptions& options) {
  std::map<std::pair<RunKey, std::string>, std::vector<const Transfer*>> usable;
  std::vector<const std::vector<const Transfer*>*> in_order;
  for (const Transfer& transfer : transfers) {
    if (!IsUsable(transfer)) continue;
    std::vector<const Transfer*>& own = usable[{transfer.run, transfer.backend}];
    if (own.empty()) in_order.push_back(&own);
    own.push_back(&transfer);
  }
  std::vector<Curve> curves;
  Intervals intervals(options);
  for (const std::vector<const Transfer*>* const all : in_order) {
    std::vector<const Transfer*> own = *all;
    if (own.size() < 2) continue;
    std::ranges::stable_sort(own, std::less<>(), &Transfer::size_bytes);
    Curve curve;
    curve.highest = *std::ranges::max_element(
        own, std::less<>(), [](const Transfer* transfer) { return BandwidthOf(*transfer); });
    for (const Transfer* transfer : own) {
      if (transfer == curve.highest) continue;
      curve.shares.push_back({transfer, intervals.AddRatio(transfer->times, curve.highest->times)});
    }
    curves.push_back(std::move(curve));
  }
  // For all together, because each sentence must hold.
  intervals.Compute();
  for (Curve& curve : curves) {
    for (Share& share : curve.shares) {
      const double size_ratio = share.transfer->size_bytes / curve.highest->size_bytes;
      const Interval times = intervals[share.number];
      share.interval = {size_ratio / (1 + times.high), size_ratio / (1 + times.low)};
    }
  }
  return curves;
}

// The smallest size from which on all are within; nothing if that is only the highest itself.
std::optional<double> SaturatedFrom(const Curve& curve) {
  std::vector<std::pair<double, bool>> sizes = {{curve.highest->size_bytes, true}};
  for (const Share& share : curve.shares) {
    sizes.emplace_back(share.transfer->size_bytes, share.interval.low > kSaturated);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  size_t num_within = 0;
  while (num_within < sizes.size() && sizes[num_within].second) ++num_within;
  if (num_within == 0 || (num_within == 1 && curve.highest->size_bytes == sizes[0].first)) return {};
  return sizes[num_within - 1].first;
}

// What people want to know, and then at which sizes that is so.
std::vector<std::string> SentencesOf(const Curve& curve) {
  std::vector<std::string> within;
  std::vector<std::string> below;
  std::vector<std::string> open;
  double largest_bytes = curve.highest->size_bytes;
  for (const Share& share : curve.shares) {
    std::vector<std::string>& sizes = share.interval.low > kSaturated    ? within
                                      : share.interval.high < kSaturated ? below
                                                                         : open;
    sizes.push_back(SizeText(share.transfer->size_bytes));
    largest_bytes = std::max(largest_bytes, share.transfer->size_bytes);
  }
  char highest[64];
  std::snprintf(highest, sizeof highest, "%.3g GB/s", BandwidthOf(*curve.highest) / 1e9);
  const std::string whose = "Bus bandwidth of " + curve.highest->backend;
  std::string text = Join(whose, " is highest at ", SizeText(curve.highest->size_bytes), " (", highest, ")");
  if (const std::optional<double> from = SaturatedFrom(curve)) {
    text += Join("; saturated from ", SizeText(*from), " on");
  } else if (curve.highest->size_bytes == largest_bytes && open.empty()) {
    text += "; no saturation is shown";
  }
  std::vector<std::string> parts;
  if (!within.empty()) parts.push_back(Join("within 10 % of that at ", Listed(within)));
  if (!below.empty()) parts.push_back(Join("lower at ", Listed(below)));
  if (!open.empty()) parts.push_back(Join("undecided at ", Listed(open)));
  std::string sizes;
  for (const std::string& part : parts) sizes += (sizes.empty() ? "" : ", ") + part;
  return {text + ".", Join(whose, " is ", sizes, " (simultaneous 95 % CI).")};
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
  if (wrong.size() > 3) {
    const size_t more = wrong.size() - 2;
    wrong.resize(2);
    wrong.push_back(Join(more, " times more"));
  }
  if (!wrong.empty())
    return {Join("Wrong elements: ", Listed(wrong), ". Times of wrong results are not compared.")};
  if (!were_all_checked) return {};
  return {"No element of any result was wrong."};
}

std::vector<std::string> FastestBackendSentences(const std::vector<Transfer>& transfers,
                                                 const BootstrapOptions& bootstrap) {
  Contest contest({.variant = "backend", .of_case = "size", .at = "at"});
  for (const Transfer& transfer : transfers) {
    if (transfer.backend == bench::kMemoryLimit) continue;  // nobody can choose it
    contest.Add(transfer.run, SizeText(transfer.size_bytes), "",
                {.name = transfer.backend, .steps = transfer.times, .flags = transfer.flags});
  }
  Intervals intervals(bootstrap);
  contest.Compare(&intervals);
  intervals.Compute();
  return contest.Sentences(intervals);
}

std::vector<std::string> SaturationSentences(const std::vector<Transfer>& transfers,
                                             const BootstrapOptions& bootstrap) {
  const std::vector<Curve> curves = CurvesOf(transfers, bootstrap);
  std::vector<RunKey> runs;
  for (const Curve& curve : curves) runs.push_back(curve.highest->run);
  if (std::set(runs.begin(), runs.end()).size() > kMaxRuns) return {};
  const std::vector<std::string> prefixes = PrefixesOf(runs);
  std::vector<std::string> sentences;
  for (size_t i = 0; i < curves.size(); ++i) {
    for (const std::string& sentence : SentencesOf(curves[i])) sentences.push_back(prefixes[i] + sentence);
  }
  return sentences;
}

std::vector<std::string> TransferSentences(const std::vector<Transfer>& transfers,
                                           const BootstrapOptions& bootstrap) {
  if (transfers.size() > kMaxTransfers) return {};
  std::vector<std::string> sentences = FastestBackendSentences(transfers, bootstrap);
  Append(SaturationSentences(transfers, bootstrap), &sentences);
  const bool is_wrong = std::ranges::any_of(
      transfers, [](const Transfer& transfer) { return transfer.wrong_elements.value_or(0) > 0; });
  for (std::string& sentence : CorrectnessSentences(transfers)) {
    sentences.insert(is_wrong ? sentences.begin() : sentences.end(), std::move(sentence));
  }
  return sentences;
}

}  // namespace gradsync::tools
