#include "bench/presets/state.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>

#include "model/error.h"

namespace gradsync::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kSchema[] = "gradsync.suite/3";

std::string PathIn(const std::string& directory) { return directory + "/suite.json"; }

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Experiment, title, program, arguments, subdirectory, done, files)

void SaveState(const std::vector<Experiment>& experiments, const std::string& directory) {
  const Json json = {{"schema", kSchema}, {"experiments", experiments}};
  const std::string path = PathIn(directory), beside = path + ".new";
  std::ofstream file(beside);
  file << json.dump(2) << "\n";
  file.close();
  std::error_code error;
  if (file) fs::rename(beside, path, error);
  if (!file || error) throw std::runtime_error("cannot write " + path);
}

std::vector<Experiment> LoadState(const std::string& directory) {
  const std::string path = PathIn(directory);
  std::ifstream file;
  if (std::error_code error; fs::is_regular_file(path, error)) file.open(path);
  Require(file.is_open(), path, ": cannot be read, so there is no suite to go on with");
  try {
    const Json json = Json::parse(file);
    const std::string schema = json.at("schema");
    Require(schema == kSchema, path, ": schema \"", schema, "\", expected \"", kSchema, "\"");
    return json.at("experiments").get<std::vector<Experiment>>();
  } catch (const Json::exception& error) {
    throw InvalidInput(Join(path, ": not the state of a suite: ", error.what()));
  }
}

std::vector<std::string> FilesOf(const Experiment& experiment, const std::string& directory) {
  const fs::path below = experiment.subdirectory;
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory / below, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".jsonl") || name.ends_with(".trace.json")) files.push_back((below / name).string());
  }
  std::ranges::sort(files);
  return files;
}

void SetUnfinishedAside(const std::vector<Experiment>& experiments, const std::string& directory) {
  std::set<std::string> kept;
  for (const Experiment& each : experiments) {
    if (each.done) kept.insert(each.files.begin(), each.files.end());
  }
  for (const Experiment& each : experiments) {
    for (const std::string& file : FilesOf(each, directory)) {
      if (kept.contains(file)) continue;
      const fs::path aside = fs::path(directory) / "unfinished" / file;
      fs::create_directories(aside.parent_path());
      fs::rename(fs::path(directory) / file, aside);
    }
  }
}

}  // namespace gradsync::bench
