// //bench:ddp, except that one rank meets with an accident where GRADSYNC_TEST_FAULT says:
//
//   GRADSYNC_TEST_FAULT="RANK PLACE COUNT KIND"
//
// PLACE is one of
//   start      before the ranks have met
//   join       when they have, and are about to connect their group
//   soon       COUNT microseconds after that
//   forward, backward, synchronisation, optimizer   a phase begins, for the COUNT-th time
//   operation  an operation of a backward pass begins
//   collective a strategy issues a collective
//   meeting    ranks meet while the optimizer runs: where they share weights, before and after they write
//   them records    half a record has been written
//   end        all is done
//
// and KIND one of kill (SIGKILL), stop (SIGSTOP), exit (status 7), leave (status 0), throw, memory (there is
// none), corrupt (another number in a gradient), hang (computes for ever), silent (does nothing any more, but
// its other threads live).
//
// With GRADSYNC_TEST_RANKS_PER_HOST=N the ranks pretend to be on hosts of N ranks each.
// GRADSYNC_TEST_RENDEZVOUS, if set, is where they meet.
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/timing/range_sink.h"
#include "bench/training/job.h"
#include "bench/training/options.h"
#include "bench/training/tasks.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/model.h"
#include "model/tensor.h"

namespace gradsync {
namespace {

struct Fault {
  int rank = -1;
  std::string place;
  int64_t count = 0;  // of such moments that pass before it
  std::string kind;
};

// The fault of this process; place "" if it has none.
const Fault& OwnFault() {
  static const Fault fault = [] {
    const char* const text = std::getenv("GRADSYNC_TEST_FAULT");
    const char* const rank = std::getenv("GRADSYNC_RANK");
    Fault read;
    if (text == nullptr || rank == nullptr) return read;
    std::istringstream(text) >> read.rank >> read.place >> read.count >> read.kind;
    return std::to_string(read.rank) == rank ? read : Fault();
  }();
  return fault;
}

// The replica, once there is one.
model::Model*& Replica() {
  static model::Model* replica = nullptr;
  return replica;
}

void Commit() {
  const std::string& kind = OwnFault().kind;
  if (kind == "kill") raise(SIGKILL);
  if (kind == "stop") raise(SIGSTOP);
  if (kind == "exit") std::_Exit(7);
  if (kind == "leave") std::_Exit(0);
  if (kind == "throw") throw std::runtime_error("the fault of the test");
  if (kind == "corrupt") Replica()->parameters().front()->grad().data<float>()[0] += 1;
  if (kind == "hang") {
    for (volatile int forever = 1; forever != 0;) continue;
  }
  if (kind == "silent") {
    for (;;) pause();
  }
  if (kind == "memory") model::Tensor::Empty(model::CpuDevice(), {int64_t{1} << 50}, model::DType::kU8);
}

void Pass(std::string_view place) {
  static int64_t passed = 0;
  if (OwnFault().place == place && passed++ == OwnFault().count) Commit();
}

class FaultSink : public bench::RangeSink {
 public:
  void Push(bench::RangeKind kind, std::string_view name) override {
    const bool is_phase = kind == bench::RangeKind::kPhase;
    phases_.push_back(is_phase || phases_.empty() ? std::string(name) : phases_.back());
    if (is_phase) Pass(name);
    if (kind == bench::RangeKind::kOp) Pass("operation");
    if (kind == bench::RangeKind::kCollective && phases_.back() == "optimizer") Pass("meeting");
  }
  void Pop() override { phases_.pop_back(); }
  uint64_t Start(bench::RangeKind, std::string_view) override {
    Pass("collective");
    return 0;
  }
  void Stop(uint64_t) override {}

 private:
  std::vector<std::string> phases_;  // of each range that has not ended
};

void PretendWorld() {
  const char* const rank = std::getenv("GRADSYNC_RANK");
  if (rank == nullptr) return;
  const char* const ranks_per_host = std::getenv("GRADSYNC_TEST_RANKS_PER_HOST");
  if (ranks_per_host != nullptr) {
    setenv("GRADSYNC_HOST", Join("host", std::atoi(rank) / std::atoi(ranks_per_host)).c_str(), 1);
  }
  const char* const rendezvous = std::getenv("GRADSYNC_TEST_RENDEZVOUS");
  if (rendezvous != nullptr) setenv("GRADSYNC_RENDEZVOUS", rendezvous, 1);
}

int Main(int argc, char** argv) {
  PretendWorld();
  Pass("start");
  bench::TrainingOptions options;
  FlagTable flags("faulty_ddp", "ddp, with an accident.");
  options.AddTo(flags);
  const int status = bench::RunTrainingProgram(argc, argv, flags, options, [](bench::TrainingTask& task) {
    Pass("join");
    if (OwnFault().place == "soon") {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::microseconds(OwnFault().count));
        Commit();
      }).detach();
    }
    Replica() = task.model.get();
    if (!OwnFault().place.empty()) task.ranges = std::make_unique<FaultSink>();
  });
  Pass("end");
  return status;
}

}  // namespace
}  // namespace gradsync

// In the place of the C library's. What it writes of records begins like this.
extern "C" ssize_t write(int file, const void* data, size_t bytes) {
  const std::string_view text(static_cast<const char*>(data), bytes);
  if (gradsync::OwnFault().place != "records" || !text.starts_with("{\"schema\"")) {
    return syscall(SYS_write, file, data, bytes);
  }
  const ssize_t written = syscall(SYS_write, file, data, bytes / 2);
  gradsync::Pass("records");
  return written;
}

// NOLINTNEXTLINE(bugprone-exception-escape): an accident like the others
int main(int argc, char** argv) { return gradsync::Main(argc, argv); }
