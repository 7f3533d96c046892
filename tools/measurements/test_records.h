#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// Makes benchmark records with invented times, for tests of the tools. A measurement that combines the
// records of ranks 0 and 1 has the warning "one-launch". The measurement also has each of the warnings
// "n<10", "n<20" and "n<100" that is true of its number n of steps. A measurement of a strategy without
// communication has the warning "drifts", because its ranks' weights become different.
namespace gradsync::tools {

// Returns an invented record, such as rank `rank` of two ranks writes in //bench:ddp, on one host of 8 CPUs.
// The backend is the one that `variant` names. If `variant` names no backend, the backend is gloo; only
// gradsync's strategy `none`, which does not communicate, gets bench::kNoBackend instead. In the record, step
// i takes steps_ns[i] nanoseconds, of which forward takes 2/10, backward 4/10, the wait for gradients 3/10
// and the optimizer 1/10. The record says that collectives run during 6/10 of each step (comm_busy_ns). If
// `variant` begins with "pytorch_", the record is of PyTorch's training, not of gradsync's.
bench::Record DdpRecord(std::string_view variant, int64_t rank, const std::vector<int64_t>& steps_ns);

// Changes the optimizer's time in step `i` of the record so that the whole step takes `step_ns`.
void SetStep(bench::Record& record, size_t i, int64_t step_ns);

// Returns an invented record, such as //bench:compare writes about the training of ResNet-50 with gradient
// buckets of `mebi` * 2^20 elements.
bench::Record CompareRecord(std::string_view strategy, int64_t mebi, int64_t rank,
                            const std::vector<int64_t>& steps_ns);

// Returns an invented record, such as rank `rank` of two ranks writes in //bench:convergence, which trains a
// language model. `bits` has the losses on held-out text after every tenth step, in bits per byte. In the
// record, every training step takes `step_ns` nanoseconds.
bench::Record LearningRecord(std::string_view strategy, int64_t seed, int64_t rank,
                             const std::vector<double>& bits, int64_t step_ns);

bench::Record AllReduceRecord(int64_t size_bytes, int64_t rank, const std::vector<int64_t>& times_ns);

std::vector<int64_t> Repeat(int64_t value, size_t count);

std::string FreshTestDir(std::string_view name);

void WriteLines(const std::string& path, const std::vector<bench::Record>& records);

std::string ReadTestFile(const std::string& path);

}  // namespace gradsync::tools
