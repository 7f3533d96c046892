#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// Makes records for tests of the tools. A measurement of both ranks' records has the warnings "one-launch",
// with few steps "n<10", "n<20" and "n<100", and without communication "drifts". It has other warnings only
// if a test changes the records or gives them uneven times.
namespace gradsync::tools {

// Returns a record of //bench:ddp of rank `rank` of 2, on one host of 8 CPUs, over the backend that `variant`
// names, else over gloo; gradsync's strategy `none` has no backend. Its steps take `steps_ns`, of which
// forward takes 2/10, backward 4/10, the wait for gradients 3/10 and the optimizer 1/10. During 6/10 of a
// step, a collective is in flight. If `variant` is "pytorch_...", the record is of PyTorch's training, not of
// gradsync's.
bench::Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns);

// Makes step i take `step_ns` in total, by changing the optimizer's part of it.
void SetStep(bench::Record& record, size_t i, int64_t step_ns);

// Returns a record as //bench:compare writes it about ResNet-50 with buckets of `mebi` Mi elements.
bench::Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                            const std::vector<int64_t>& steps_ns);

// Returns a record of //bench:convergence of rank `rank` of 2. `bits` has the losses on held-out text after
// every tenth step, in bits per byte. Each step takes `step_ns`.
bench::Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank,
                             const std::vector<double>& bits, int64_t step_ns);

bench::Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns);

std::vector<int64_t> Repeat(int64_t value, size_t count);

std::string FreshTestDir(std::string_view name);

void WriteLines(const std::string& path, const std::vector<bench::Record>& records);

std::string ReadTestFile(const std::string& path);

}  // namespace gradsync::tools
