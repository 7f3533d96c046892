#include "comm/rendezvous/store_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "comm/processes/random.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Time for rank 0's answer after the deadline of a request, and for reporting a failure.
constexpr milliseconds kAnswerWithin{1000};

}  // namespace

StoreClient::StoreClient(const HostPort& rank0, const JobIdentity& job, const std::string& run,
                         Deadline deadline)
    : secret_(job.secret),
      channel_(Connect(rank0, deadline)),
      hello_(absl::StrCat(kProtocol, "\n", job.name, "\n", run, "\n", RandomHex())) {
  const auto [type, payload] = Ask(FrameType::kHello, hello_, deadline);
  if (type != FrameType::kChallenge) throw std::runtime_error("what listens there is not rank 0 of this run");
  const std::pair<std::string, std::string> nonce_and_proof =
      absl::StrSplit(payload, absl::MaxSplits('\n', 1));
  nonce_ = nonce_and_proof.first;
  if (!IsSameMac(nonce_and_proof.second, ProofOfRank0(secret_, hello_, nonce_)))
    throw Refused("GRADSYNC_SECRET is not the one of rank 0");
}

std::optional<std::vector<std::string>> StoreClient::Join(int rank, const std::string& host,
                                                          const std::string& terms, Deadline deadline) {
  const std::string rest = absl::StrCat(rank, "\n", host, "\n", terms);
  const std::string proof = ProofOfRank(secret_, hello_, nonce_, rest);
  const Frame answer = Ask(FrameType::kJoin, absl::StrCat(proof, "\n", rest), deadline);
  if (answer.type == FrameType::kLater) return std::nullopt;
  return absl::StrSplit(answer.payload, '\n');
}

Frame StoreClient::Ask(FrameType type, const std::string& payload, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw JobFailed(failure_);
  try {
    channel_.Send({type, payload}, deadline);
  } catch (const std::runtime_error&) {
    // Rank 0 has ended, but may have sent the cause before. Otherwise Receive also fails.
  }
  ++num_unanswered_;
  Frame answer{};
  do {
    answer = channel_.Receive(kMaxPayloadBytes, deadline);
  } while (--num_unanswered_ > 0 && !IsFailure(answer.type));
  const std::string line = absl::StrReplaceAll(answer.payload, {{"\n", " "}});
  if (answer.type == FrameType::kNo) throw Refused(line);
  if (IsFailure(answer.type)) {
    if (answer.type == FrameType::kRefused) kind_ = FailureKind::kBadArgument;
    throw JobFailed(failure_ = line);
  }
  return answer;
}

void StoreClient::Set(const std::string& key, std::string_view value, Deadline deadline) {
  Ask(FrameType::kSet, gradsync::Join(key, "\n", value), deadline);
}

std::optional<std::string> StoreClient::Get(const std::string& key, Deadline deadline) {
  const std::string wait_ms = std::to_string(PollTimeout(deadline));
  Frame answer = Ask(FrameType::kGet, absl::StrCat(wait_ms, "\n", key), deadline + kAnswerWithin);
  return answer.type == FrameType::kYes ? std::optional<std::string>(std::move(answer.payload))
                                        : std::nullopt;
}

Store::Values StoreClient::Meet(const std::string& key, int index, int size,
                                const std::vector<std::string>& own, Deadline deadline) {
  const Frame answer =
      Ask(FrameType::kMeet,
          absl::StrCat(PollTimeout(deadline), "\n", size, "\n", index, "\n", key, "\n", Pack(own)),
          deadline + kAnswerWithin);
  const auto list = Unpack(answer.payload);
  if (!list.has_value() || std::ssize(*list) != size)
    throw std::runtime_error("what answers for rank 0 is not rank 0 of this run");
  Values values;
  // A mark precedes each value that exists.
  for (const std::string& value : *list)
    values.push_back(value.empty() ? std::nullopt : std::optional(value.substr(1)));
  return values;
}

std::optional<std::string> StoreClient::bad_argument() {
  const std::lock_guard lock(mutex_);
  return kind_ == FailureKind::kBadArgument ? std::optional(failure_) : std::nullopt;
}

void StoreClient::Fail(const std::string& cause, FailureKind kind) noexcept {
  try {
    Ask(kind == FailureKind::kBadArgument ? FrameType::kRefuse : FrameType::kFail, cause,
        Clock::now() + kAnswerWithin);
  } catch (const std::runtime_error&) {
    // Rank 0 has ended, or has received another failure before.
  }
}

}  // namespace gradsync::comm
