#include "bench/collectives/options.h"

#include <algorithm>
#include <utility>

#include "bench/collectives/memory_limit.h"
#include "bench/collectives/pattern.h"
#include "bench/records/host.h"
#include "comm/factory.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {

void AllReduceOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxIterations = 1'000'000;
  flags.BeginGroup("Collectives");
  std::vector<std::string> names = comm::BackendNames();
  names.emplace_back(kMemoryLimit);
  flags.Add("backend", &backends, OneOf(std::move(names)),
            "Measures these backends, which take turns.\nmemory_limit is a plain loop in shared memory, for "
            "comparison.");
  using enum comm::Collective;
  flags.Add("collectives", &collectives, OneOf({kAllReduce, kReduceScatter, kAllGather, kBroadcast}),
            "Measures these collectives, one after the other.");
  flags.Add("sizes", &sizes_bytes, Bytes(),
            "Measures whole vectors of these sizes.\nThe whole vector is what all ranks reduce, or have at "
            "the end.");
  flags.Add(
      "in_flight", &in_flight, Integer(1, 64),
      "Issues this number of collectives before it waits for the first.\nSeveral numbers are measured one "
      "after the other.");
  flags.Add("op", &op, OneOf({comm::ReduceOp::kSum, comm::ReduceOp::kMean}),
            "Reduces with this operation, in collectives that reduce.");
  flags.Add("dtype", &dtype, OneOf({model::DType::kF32, model::DType::kF64, model::DType::kBF16}),
            "Sets the type of an element.");
  flags.Add("iterations", &iterations, Integer(1, kMaxIterations),
            "Times this number of collectives of each size.");
  flags.Add("warmup_iterations", &warmup_iterations, Integer(0, kMaxIterations),
            "Runs this number of untimed collectives before the timed ones.");
  ranks.AddTo(flags);
}

std::vector<std::string> AllReduceOptions::GroupBackends() const {
  std::vector<std::string> groups = backends;
  std::ranges::replace(groups, std::string(kMemoryLimit), std::string(kMemoryLimitGroup));
  return groups;
}

void CheckAllReduceOptions(const AllReduceOptions& options, const comm::World& world) {
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(options.dtype));
  const bool has_parts = std::ranges::any_of(options.collectives, [](comm::Collective collective) {
    return collective == comm::Collective::kReduceScatter || collective == comm::Collective::kAllGather;
  });
  for (const int64_t bytes : options.sizes_bytes) {
    Require(bytes % element_bytes == 0, "--sizes=", FormatByteCount(bytes), ": expected a multiple of the ",
            element_bytes, " bytes of an ", Name(options.dtype));
    Require(!has_parts || bytes % (element_bytes * world.size) == 0, "--sizes=", FormatByteCount(bytes),
            ": expected a multiple of the ", element_bytes * world.size, " bytes of ", world.size, " ",
            Name(options.dtype), ", one for each rank");
  }
  const int max_world_size = MaxExactWorldSize(options.dtype);
  Require(world.size <= max_world_size, "--dtype=", Name(options.dtype), ": sums over ", world.size,
          " ranks are not exact and cannot be checked, expected at most ", max_world_size, " ranks");
  if (std::ranges::count(options.backends, kMemoryLimit) == 0) return;
  Require(options.collectives == AllReduceOptions().collectives, "--backend=", kMemoryLimit,
          ": expected --collectives=all_reduce");
  Require(options.in_flight == AllReduceOptions().in_flight, "--backend=", kMemoryLimit,
          ": expected --in_flight=1");
  Require(options.dtype == model::DType::kF32 && options.op == comm::ReduceOp::kSum,
          "--backend=", kMemoryLimit, ": found ", Name(options.op), " of ", Name(options.dtype),
          ", expected sum of f32");
  Require(world.size <= kMaxMemoryLimitRanks, "--backend=", kMemoryLimit, ": found ", world.size,
          " ranks, expected at most ", kMaxMemoryLimitRanks);
}

void CheckAllReduceMemory(const AllReduceOptions& options, const comm::World& world) {
  const int64_t largest_bytes = *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  // Each rank has the pattern that buffers are filled with, and for each backend the buffer and what it may
  // need beside that.
  const double num_buffers = 1 + 2 * static_cast<double>(options.backends.size());
  const double needed_bytes = static_cast<double>(largest_bytes) * num_buffers *
                              static_cast<double>(std::ranges::max(options.in_flight)) * world.local_size;
  const std::optional<int64_t> available_bytes = AvailableMemoryBytes();
  if (!available_bytes || needed_bytes <= static_cast<double>(*available_bytes)) return;
  throw TooLittleMemory(Join("--sizes=", FormatByteCount(largest_bytes), ": ", world.local_size,
                             " ranks need about ", ApproximateBytes(needed_bytes), " on this host, ",
                             ApproximateBytes(static_cast<double>(*available_bytes)), " are available"));
}

}  // namespace gradsync::bench
