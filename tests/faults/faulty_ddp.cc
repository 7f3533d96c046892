// //bench:ddp with a fault in one rank, which GRADSYNC_TEST_FAULT describes:
//
//   GRADSYNC_TEST_FAULT="RANK PLACE COUNT KIND"
//
// PLACE is one of
//   start      before the ranks have met at the rendezvous
//   join       after the ranks have met, before they connect their group
//   soon       COUNT microseconds after `join`
//   forward, backward, synchronisation, optimizer   the phase begins for the COUNT-th time
//   operation  an operation of a backward pass begins
//   collective a strategy issues a collective
//   meeting    a barrier during the update, before and after ranks write shared weights
//   records    half of a record has been written
//   end        all work is done
//
// KIND is one of kill (SIGKILL), stop (SIGSTOP), exit (status 7), leave (status 0), throw, memory (memory is
// exhausted), corrupt (a gradient gets another number), hang (computes forever), silent (the thread does
// nothing, but other threads continue).
//
// With GRADSYNC_TEST_RANKS_PER_HOST=N the ranks act as if each host had N ranks. GRADSYNC_TEST_RENDEZVOUS, if
// set, is the rendezvous.
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
#include "bench/training/options.h"
#include "bench/training/programs/job.h"
#include "bench/training/tasks.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/model.h"
#include "model/tensor/tensor.h"

namespace gradsync {
namespace {

struct Fault {
  int rank = -1;
  std::string place;
  int64_t count = 0;  // number of such moments before the fault
  std::string kind;
};

// Returns the fault of this process; its place is "" if there is none.
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

// Returns the replica; null before it is made.
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
  std::vector<std::string> phases_;  // phase of each range that has not ended
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

// Replaces write of the C library. Writes of records begin with this text.
extern "C" ssize_t write(int file, const void* data, size_t bytes) {
  const std::string_view text(static_cast<const char*>(data), bytes);
  if (gradsync::OwnFault().place != "records" || !text.starts_with("{\"schema\"")) {
    return syscall(SYS_write, file, data, bytes);
  }
  const ssize_t written = syscall(SYS_write, file, data, bytes / 2);
  gradsync::Pass("records");
  return written;
}

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that escapes is also a fault
int main(int argc, char** argv) { return gradsync::Main(argc, argv); }
