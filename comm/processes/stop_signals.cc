#include "comm/processes/stop_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace gradsync::comm {
namespace {

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

// Debian 13's gloo loads UCX, which installs a SIGHUP handler before main, even where SIGHUP was ignored.
// So the actions are read before libraries are initialised, and restored after it.
std::array<struct sigaction, kStopSignals.size()> inherited;

void SaveInherited(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], nullptr, &inherited[i]);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = &SaveInherited;

[[gnu::constructor]] void RestoreInherited() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &inherited[i], nullptr);
}

}  // namespace

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

StopSignals::StopSignals() {
  sigset_t mask = SetOf({});
  for (const int signal : kStopSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&mask, signal);
  }
  fd_ = FileDescriptor(signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd_.valid()) throw std::system_error(errno, std::generic_category(), "signalfd");
  block_signals_.emplace(mask);
}

std::optional<int> StopSignals::Next() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void EndBySignal(int signal) {
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  const sigset_t mask = SetOf({signal});
  pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  raise(signal);
  _exit(128 + signal);  // reached if the signal did not end the process
}

}  // namespace gradsync::comm
