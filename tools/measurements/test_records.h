#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// Makes records for tests of the tools. The only warnings of these records are about the small number of
// steps.
namespace gradsync::tools {

// Returns a record of rank `rank` of 2, on one host of 8 CPUs, over gloo. `steps_ns` has the times of the
// steps. Forward takes 2/10 of a step, backward 4/10, sync_wait 3/10 and the optimizer 1/10; comm_busy is
// 6/10. All variants overlap except the floor, `none`. A variant of pytorch is a peer; the name of its
// strategy begins with the name of the comparable strategy.
bench::Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns);

// Sets the time of the i-th step, by changing the optimizer's time.
void SetStep(bench::Record& record, size_t i, int64_t step_ns);

// Returns a record of ResNet-50 with buckets of `mebi` Mi elements.
bench::Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                            const std::vector<int64_t>& steps_ns);

// Returns a record of rank `rank` of 2 of the convergence benchmark: the loss on held-out text is `bits` per
// byte after every tenth step, and a step takes `step_ns`.
bench::Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank,
                             const std::vector<double>& bits, int64_t step_ns);

bench::Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns);

// Returns `count` copies of `value`.
std::vector<int64_t> Repeat(int64_t value, size_t count);

// Makes an empty directory for this test.
std::string FreshTestDir(std::string_view name);

// Writes the records' lines to `path`.
void WriteLines(const std::string& path, const std::vector<bench::Record>& records);

std::string ReadTestFile(const std::string& path);

}  // namespace gradsync::tools
