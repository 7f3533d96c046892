#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// Records for tests of the tools, with nothing about them that a flag would mention but few steps.
namespace gradsync::tools {

// Rank `rank` of 2, on one host of 8 CPUs, over gloo. `steps_ns`: the steps; every phase is a part of them:
// forward 2/10, backward 4/10, sync_wait 3/10, optimizer the rest; comm_busy is 6/10. All overlap
// but `none`, the floor. A variant of pytorch's is a peer; its strategy begins with its twin's name.
bench::Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns);

// The i-th step takes so long, by what the optimizer takes.
void SetStep(bench::Record& record, size_t i, int64_t step_ns);

// The same of ResNet-50 with buckets of `mebi` Mi elements.
bench::Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                            const std::vector<int64_t>& steps_ns);

// Rank `rank` of 2 of a model that learns: `bits` per byte of held-out text after every tenth step of
// `step_ns`.
bench::Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank,
                             const std::vector<double>& bits, int64_t step_ns);

bench::Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns);

// `value`, `count` times.
std::vector<int64_t> Repeat(int64_t value, size_t count);

// An empty directory of this test's own.
std::string FreshTestDir(std::string_view name);

// Writes the records' lines to `path`.
void WriteLines(const std::string& path, const std::vector<bench::Record>& records);

std::string ReadTestFile(const std::string& path);

}  // namespace gradsync::tools
