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
namespace {

// Each rank has the pattern that buffers are filled with, and for each backend the buffer and what it may
// need beside that.
int64_t BuffersPerRank(size_t num_backends) { return 1 + 2 * static_cast<int64_t>(num_backends); }

}  // namespace

void AllReduceOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxIterations = 1'000'000;
  flags.BeginGroup("Collectives");
  std::vector<std::string> names = comm::BackendNames();
  names.emplace_back(kMemoryLimit);
  flags.Add("backend", &backends, OneOf(std::move(names)),
            "Backends to measure, which take turns; memory_limit is a plain loop in shared memory, to judge "
            "them by.");
  flags.Add("collectives", &collectives, OneOf({"all_reduce", "reduce_scatter", "all_gather", "broadcast"}),
            "Collectives to measure, one after the other.");
  flags.Add("sizes", &sizes_bytes, Bytes(),
            "Sizes of the whole vector: what all ranks reduce, or hold at the end.");
  flags.Add(
      "in_flight", &in_flight, Integer(1, 64),
      "How many collectives are issued before the first is waited for. Several numbers are measured one "
      "after the other.");
  flags.Add("op", &op, OneOf({"sum", "mean"}), "The reduction, where there is one.");
  flags.Add("dtype", &dtype, OneOf({"f32", "f64", "bf16"}), "The type of an element.");
  flags.Add("iterations", &iterations, Integer(1, kMaxIterations), "Timed collectives of each size.");
  flags.Add("warmup_iterations", &warmup_iterations, Integer(0, kMaxIterations),
            "Untimed collectives before the timed ones.");
  ranks.AddTo(flags);
}

model::DType AllReduceOptions::element_type() const {
  if (dtype == "f64") return model::DType::kF64;
  return dtype == "bf16" ? model::DType::kBF16 : model::DType::kF32;
}

void CheckAllReduceOptions(AllReduceOptions& options, const comm::World& world) {
  const int64_t element_bytes = static_cast<int64_t>(SizeOf(options.element_type()));
  const bool has_parts = std::ranges::any_of(options.collectives, [](const std::string& name) {
    return name == "reduce_scatter" || name == "all_gather";
  });
  for (const int64_t bytes : options.sizes_bytes) {
    Require(bytes % element_bytes == 0, "--sizes=", FormatByteCount(bytes), ": expected a multiple of the ",
            element_bytes, " bytes of an ", options.dtype);
    Require(!has_parts || bytes % (element_bytes * world.size) == 0, "--sizes=", FormatByteCount(bytes),
            ": expected a multiple of the ", element_bytes * world.size, " bytes of ", world.size, " ",
            options.dtype, ", one for each rank");
  }
  const int max_world_size = MaxExactWorldSize(options.element_type());
  Require(world.size <= max_world_size, "--dtype=", options.dtype, ": sums over ", world.size,
          " ranks are not exact and cannot be checked, expected at most ", max_world_size, " ranks");
  std::vector<std::string> backends = options.backends;
  if (std::erase(backends, kMemoryLimit) > 0) {
    Require(options.collectives == std::vector<std::string>{"all_reduce"}, "--backend=", kMemoryLimit,
            ": expected --collectives=all_reduce");
    Require(options.in_flight == std::vector<int64_t>{1}, "--backend=", kMemoryLimit,
            ": expected --in_flight=1");
    Require(options.dtype == "f32" && options.op == "sum", "--backend=", kMemoryLimit, ": found ", options.op,
            " of ", options.dtype, ", expected sum of f32");
    Require(world.size <= kMaxMemoryLimitRanks, "--backend=", kMemoryLimit, ": found ", world.size,
            " ranks, expected at most ", kMaxMemoryLimitRanks);
    backends.emplace_back("shm");  // which needs the same: the CPU, and all ranks on one host
  }
  CheckDevice(options.ranks, backends, world);

  const int64_t largest_bytes = *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  const double needed_bytes = static_cast<double>(largest_bytes) *
                              static_cast<double>(BuffersPerRank(options.backends.size())) *
                              static_cast<double>(std::ranges::max(options.in_flight)) * world.local_size;
  const std::optional<int64_t> available_bytes = AvailableMemoryBytes();
  Require(!available_bytes || needed_bytes <= static_cast<double>(*available_bytes),
          "--sizes=", FormatByteCount(largest_bytes), ": ", world.local_size, " ranks need about ",
          ApproximateBytes(needed_bytes), " on this host, ",
          ApproximateBytes(static_cast<double>(available_bytes.value_or(0))), " are available");
}

}  // namespace gradsync::bench
