#include "ddp/sharding/owned_matrices.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "model/optimizer.h"

namespace gradsync::ddp {
namespace {

using model::Parameter;

constexpr double kMostPadding = 1.1;

// The multiplications of one Newton-Schulz iteration.
double WorkOf(const Parameter& p) {
  const auto rows = static_cast<double>(p.shape()[0]), columns = static_cast<double>(p.shape()[1]);
  const double side = std::min(rows, columns);
  return side * side * (2 * std::max(rows, columns) + side);
}

struct Share {
  std::vector<Parameter*> params;
  std::vector<int64_t> offsets;
  int64_t numel = 0;
  double work = 0;
};

// The share with the most work comes first.
std::vector<Share> Pack(std::span<Parameter* const> matrices, size_t num_shares) {
  std::vector<Parameter*> largest_first(matrices.begin(), matrices.end());
  std::ranges::stable_sort(largest_first, std::greater(), [](const Parameter* p) { return WorkOf(*p); });
  std::vector<Share> shares(num_shares);
  for (Parameter* const param : largest_first) {
    Share& share = *std::ranges::min_element(shares, {}, &Share::work);
    const auto line = static_cast<int64_t>(kLineBytes / SizeOf(param->dtype()));
    share.params.push_back(param);
    share.offsets.push_back(share.numel);
    share.numel += (param->numel() + line - 1) / line * line;
    share.work += WorkOf(*param);
  }
  std::ranges::stable_sort(shares, std::greater(), &Share::work);
  return shares;
}

int64_t LongestOf(const std::vector<Share>& shares) {
  return std::ranges::max_element(shares, {}, &Share::numel)->numel;
}

// What is sent for these matrices.
int64_t SentNumel(std::span<Parameter* const> matrices, size_t num_shares) {
  return LongestOf(Pack(matrices, num_shares)) * static_cast<int64_t>(num_shares);
}

bool ArePacked(std::span<Parameter* const> matrices, size_t num_shares) {
  double numel = 0;
  for (const Parameter* const param : matrices) numel += static_cast<double>(param->numel());
  return static_cast<double>(SentNumel(matrices, num_shares)) <= kMostPadding * numel;
}

// The matrices of each bucket.
std::vector<std::span<Parameter* const>> Cut(std::span<Parameter* const> matrices, size_t num_parts,
                                             size_t bucket_bytes) {
  std::vector<std::span<Parameter* const>> runs;
  for (std::span<Parameter* const> rest = matrices; !rest.empty(); rest = rest.subspan(runs.back().size())) {
    size_t run = 0;
    for (size_t n = 1; n <= rest.size(); ++n) {
      const auto sent = static_cast<size_t>(SentNumel(rest.first(n), num_parts));
      if (run > 0 && sent * SizeOf(rest[0]->dtype()) > bucket_bytes) break;
      if (ArePacked(rest.first(n), num_parts)) run = n;
    }
    runs.push_back(rest.first(run > 0 ? run : rest.size()));
  }
  for (size_t i = runs.size(); i-- > 0;) {
    const auto tail = matrices.last(static_cast<size_t>(matrices.data() + matrices.size() - runs[i].data()));
    if (!ArePacked(tail, num_parts)) continue;
    runs.resize(i);
    runs.push_back(tail);
    break;
  }
  return runs;
}

}  // namespace

OwnedPlan PlanOwned(std::span<Parameter* const> order, int num_parts, size_t bucket_bytes) {
  std::vector<Parameter*> matrices, others;
  std::unordered_map<const Parameter*, size_t> place;
  for (Parameter* const param : order) {
    place.emplace(param, place.size());
    (model::IsMatrix(*param) ? matrices : others).push_back(param);
  }
  OwnedPlan owned{.plan = PlanPlaced(others, bucket_bytes, /*small_first=*/true, /*small_last=*/true)};
  std::vector<double> work(static_cast<size_t>(num_parts));  // of each rank
  for (const std::span<Parameter* const> run : Cut(matrices, work.size(), bucket_bytes)) {
    const std::vector<Share> shares = Pack(run, work.size());
    std::vector<size_t> least_first(work.size());
    std::iota(least_first.begin(), least_first.end(), size_t{0});
    std::ranges::stable_sort(least_first, {}, [&](size_t rank) { return work[rank]; });
    Bucket& bucket = owned.plan.buckets.emplace_back();
    const int64_t longest = LongestOf(shares);
    bucket.numel = longest * num_parts;
    for (size_t i = 0; i < shares.size(); ++i) {
      work[least_first[i]] += shares[i].work;
      for (size_t k = 0; k < shares[i].params.size(); ++k) {
        bucket.params.push_back(shares[i].params[k]);
        bucket.offsets.push_back(static_cast<int64_t>(least_first[i]) * longest + shares[i].offsets[k]);
      }
    }
  }
  const double sum = std::accumulate(work.begin(), work.end(), 0.0);
  if (sum > 0) owned.largest_work = std::ranges::max(work) * num_parts / sum;
  std::ranges::stable_sort(owned.plan.buckets, {}, [&](const Bucket& bucket) {
    size_t last = 0;
    for (const Parameter* const param : bucket.params) last = std::max(last, place.at(param));
    return last;
  });
  return owned;
}

}  // namespace gradsync::ddp
