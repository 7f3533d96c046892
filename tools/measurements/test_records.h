#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// Makes benchmark records with invented times, for tests of the tools.
namespace gradsync::tools {

// Returns an invented record of rank `rank` (of two ranks) in the benchmark //bench:ddp. Step i takes
// steps_ns[i] ns: 20 % forward, 40 % backward, 30 % waiting for gradients, 10 % optimizer. If `variant`
// names no backend, the record's backend is gloo; for gradsync's strategy `none` it stays "none".
bench::Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns);

// Changes the optimizer's time in step `i` of the record so that the whole step takes `step_ns`.
void SetStep(bench::Record& record, size_t i, int64_t step_ns);

// Returns an invented record about training ResNet-50 with gradient buckets of `mebi` * 2^20 elements.
bench::Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                            const std::vector<int64_t>& steps_ns);

// Returns an invented record of rank `rank` in //bench:convergence, which trains a language model. bits[i] is
// the loss on held-out text after 10 * (i + 1) training steps, in bits per byte.
bench::Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank,
                             const std::vector<double>& bits, int64_t step_ns);

bench::Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns);

std::vector<int64_t> Repeat(int64_t value, size_t count);

std::string FreshTestDir(std::string_view name);

void WriteLines(const std::string& path, const std::vector<bench::Record>& records);

std::string ReadTestFile(const std::string& path);

}  // namespace gradsync::tools
