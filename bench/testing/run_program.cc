#include "bench/testing/run_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace gradsync::bench {
namespace {

// A launcher may have started the test, so the launcher's variables are removed.
comm::EnvironmentChanges Environment(const std::vector<std::pair<std::string, std::string>>& changes) {
  comm::EnvironmentChanges environment;
  for (const std::string launcher : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    environment[launcher] = environment["GRADSYNC_" + launcher] = std::nullopt;
  }
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
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

std::vector<Record> RecordsIn(const std::string& directory, bool running) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".jsonl") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Record> all;
  for (const std::filesystem::path& path : paths) {
    std::vector<Record> records;
    std::istringstream lines(ReadText(path.string()));
    for (std::string line; std::getline(lines, line);) {
      const std::string fault = AddLine(line, &records);
      EXPECT_TRUE(fault.empty() || (running && fault.starts_with("cut off"))) << path << ": " << fault;
    }
    all.insert(all.end(), records.begin(), records.end());
  }
  return all;
}

RunningProgram::RunningProgram(const std::string& path, const std::vector<std::string>& arguments,
                               const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> command = {path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  child_.emplace(
      command, comm::ChildOptions{
                   .environment = Environment(environment), .stdout_fd = out_.fd(), .stderr_fd = err_.fd()});
}

ProgramResult RunningProgram::Wait(std::chrono::seconds patience) {
  const auto end = child_->Wait(std::chrono::steady_clock::now() + patience);
  if (!end.has_value()) child_->Kill();
  return {.status = end.has_value() ? end->shell_status() : -1, .out = out(), .err = err()};
}

ProgramResult RunProgram(const std::string& path, const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  return RunningProgram(path, arguments, environment).Wait();
}

}  // namespace gradsync::bench
