#include "bench/launch/run_program.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace gradsync::bench {
namespace {

std::vector<std::string> Environment(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const char* const launcher : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    variables.erase(launcher);
    variables.erase(std::string("GRADSYNC_") + launcher);
  }
  for (const auto& [name, value] : changes) variables[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The parent in /proc/<pid>/stat, which comes after a name in brackets that may hold anything.
pid_t ParentOf(const std::string& pid) {
  const std::string stat = ReadText("/proc/" + pid + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 4 > stat.size()) return 0;
  return static_cast<pid_t>(std::atoi(stat.c_str() + name_end + 4));
}

}  // namespace

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string FreshDirectory() {
  std::string path = ::testing::TempDir();
  while (path.ends_with('/')) path.pop_back();  // The programs show paths in their normal form.
  path += "/gradsync-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a directory like " + path);
  return path;
}

RunningProgram::RunningProgram(const std::string& path, const std::vector<std::string>& arguments,
                               const std::vector<std::pair<std::string, std::string>>& environment) {
  const std::string directory = FreshDirectory();
  out_path_ = directory + "/stdout";
  err_path_ = directory + "/stderr";
  std::vector<std::string> argv = {path};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> env = Environment(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path_.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_path_.c_str(), flags, 0600);
  const int error =
      posix_spawn(&pid_, path.c_str(), &actions, nullptr, Pointers(argv).data(), Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + path);
  running_ = true;
}

RunningProgram::~RunningProgram() {
  if (running_) Wait(std::chrono::seconds(0));
}

std::string RunningProgram::out() const { return ReadText(out_path_); }
std::string RunningProgram::err() const { return ReadText(err_path_); }

pid_t RunningProgram::ChildWith(const std::string& name, const std::string& value) const {
  // Variables in /proc/<pid>/environ end with a zero.
  const std::string wanted = name + "=" + value + std::string(1, '\0');
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return 0;
  pid_t child = 0;
  while (const dirent* const entry = readdir(processes)) {
    const std::string pid = entry->d_name;
    if (pid.find_first_not_of("0123456789") != std::string::npos || ParentOf(pid) != pid_) continue;
    if (ReadText("/proc/" + pid + "/environ").find(wanted) != std::string::npos) {
      child = static_cast<pid_t>(std::atoi(pid.c_str()));
    }
  }
  closedir(processes);
  return child;
}

ProgramResult RunningProgram::Wait(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int status = 0;
  bool killed = false;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      killed = true;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  running_ = false;
  ProgramResult result{.out = out(), .err = err()};
  if (!killed) result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  return RunningProgram(path, arguments, environment).Wait();
}

}  // namespace gradsync::bench
