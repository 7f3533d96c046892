#include "comm/rendezvous/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "comm/processes/random.h"

namespace gradsync::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Maximum of unauthenticated connections; then the oldest is closed.
constexpr ptrdiff_t kMaxStrangers = 64;
constexpr milliseconds kAcceptPause{100};
constexpr seconds kHelloWithin{5};
// Time for a client to receive an answer.
constexpr seconds kTakeWithin{5};
// How long the process of a departing rank may keep its number from a new process.
constexpr seconds kLeaveWithin{1};
// How long rank 0 waits to send the cause of a failure to ranks that are starting.
constexpr seconds kTellWithin{2};
// How long rank 0 waits at the end for ranks that have joined.
constexpr seconds kFarewell{1};
constexpr int kMaxWaitMs = 1'000'000'000;

std::pair<std::string, std::string> Cut(const std::string& text) {
  return absl::StrSplit(text, absl::MaxSplits('\n', 1));
}

Deadline TimeFromNow(int wait_ms) { return Clock::now() + milliseconds(std::clamp(wait_ms, 0, kMaxWaitMs)); }

}  // namespace

struct StoreServer::Connection {
  explicit Connection(FileDescriptor socket) : channel(std::move(socket)) {}

  enum class Standing { kStranger, kProven, kTurnedAway };
  // Changes the state of an unauthenticated connection. Returns false if the connection is authenticated.
  bool Becomes(Standing next) {
    Standing stranger = Standing::kStranger;
    return standing.compare_exchange_strong(stranger, next);
  }

  Channel channel;
  std::atomic<Standing> standing = Standing::kStranger;
  int rank = 0;  // rank of the client, after it has joined
  std::atomic<bool> is_over{false};
  std::thread thread{};
};

StoreServer::StoreServer(std::vector<FileDescriptor> listeners, Options options)
    : options_(std::move(options)),
      listeners_(std::move(listeners)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      hosts_(static_cast<size_t>(options_.size)) {
  if (!wake_.valid()) throw std::system_error(errno, std::generic_category(), "eventfd");
  hosts_[0] = options_.host;
  thread_ = std::thread([this] { Accept(); });
}

StoreServer::~StoreServer() {
  {
    // Other ranks may still be in Meet, or may want to report their failures.
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, Clock::now() + kFarewell, [&] { return connected_.empty(); });
    is_stopping_ = true;
    WakeAll();
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

std::vector<std::string> StoreServer::WaitForRanks(
    Deadline deadline,
    const std::function<std::string(const std::function<bool(int)>& has_joined)>& missing) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [&] { return has_begun_ || !cause_.empty(); })) {
    cause_ = missing([&](int rank) { return hosts_[static_cast<size_t>(rank)].has_value(); });
    WakeAll();
  }
  // Later failures are returned by the next call; ranks know their kind.
  if (has_begun_) {
    std::vector<std::string> hosts;
    for (const auto& host : hosts_) hosts.push_back(*host);
    return hosts;
  }
  changed_.wait_until(lock, std::min(deadline, Clock::now() + kTellWithin),
                      [&] { return std::ssize(told_) == options_.size - 1; });
  throw JobFailed(cause_);
}

void StoreServer::Set(const std::string& key, std::string_view value, Deadline) {
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) throw JobFailed(cause_);
  if (is_stopping_) throw std::runtime_error("rank 0 is leaving");
  values_[key] = value;
  changed_.notify_all();
}

std::optional<std::string> StoreServer::Get(const std::string& key, Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline,
                      [&] { return values_.contains(key) || !cause_.empty() || is_stopping_; });
  if (!cause_.empty()) throw JobFailed(cause_);
  if (is_stopping_) throw std::runtime_error("rank 0 is leaving");
  const auto it = values_.find(key);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

void StoreServer::Fail(const std::string& cause, FailureKind kind) noexcept {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) {
    cause_ = cause;
    kind_ = kind;
  }
  WakeAll();
}

void StoreServer::WakeAll() {
  changed_.notify_all();
  for (auto& [key, meeting] : meetings_) meeting.changed.notify_all();
}

Store::Values StoreServer::Meet(const std::string& key, int index, int size,
                                const std::vector<std::string>& own, Deadline deadline) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = meetings_[key];
  if (meeting.values.empty()) {
    meeting.values.resize(static_cast<size_t>(size));
    meeting.num_missing = size;
  }
  const auto place = static_cast<size_t>(index);
  if (std::ssize(meeting.values) != size || meeting.values[place].has_value())
    throw std::runtime_error("ranks do not meet as they should");
  meeting.values[place] = own;
  if (--meeting.num_missing == 0) meeting.changed.notify_all();
  ++meeting.num_waiting;
  meeting.changed.wait_until(lock, deadline,
                             [&] { return meeting.num_missing == 0 || !cause_.empty() || is_stopping_; });
  Values values;
  for (const auto& theirs : meeting.values) {
    values.push_back(theirs.has_value() ? std::optional((*theirs)[theirs->size() == 1 ? 0 : place])
                                        : std::nullopt);
  }
  const bool is_complete = meeting.num_missing == 0;
  if (--meeting.num_waiting == 0 && is_complete) meetings_.erase(key);
  if (is_complete) return values;
  if (!cause_.empty()) throw JobFailed(cause_);
  if (is_stopping_) throw std::runtime_error("rank 0 is leaving");
  return values;
}

std::optional<std::string> StoreServer::bad_argument() {
  const std::lock_guard lock(mutex_);
  return kind_ == FailureKind::kBadArgument ? std::optional(cause_) : std::nullopt;
}

void StoreServer::Accept() {
  Deadline accept_again{};
  for (;;) {
    const bool may_accept = Clock::now() >= accept_again;
    std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& listener : listeners_)
      polled.push_back({.fd = may_accept ? listener.get() : -1, .events = POLLIN, .revents = 0});
    poll(polled.data(), polled.size(), PollTimeout(may_accept ? Deadline::max() : accept_again));
    if (polled[0].revents != 0) break;
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (polled[1 + i].revents == 0) continue;
      FileDescriptor socket(accept4(listeners_[i].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      // Waits before the next attempt, because without descriptors, memory or threads it would fail
      // immediately.
      const auto pause = [&] { accept_again = Clock::now() + kAcceptPause; };
      if (!socket.valid() && is_short) pause();
      connections_.remove_if([](Connection& connection) {
        // Read once: its thread may set it meanwhile, and a thread that was not joined ends the process.
        const bool is_over = connection.is_over;
        if (is_over) connection.thread.join();
        return is_over;
      });
      if (!socket.valid()) continue;
      RejectOldest();
      SendAtOnce(socket);
      Connection& connection = connections_.emplace_back(std::move(socket));
      try {
        connection.thread = std::thread([&] { Serve(connection); });
      } catch (const std::system_error&) {
        connections_.pop_back();
        pause();
      }
    }
  }
  {
    const std::lock_guard lock(mutex_);
    for (Connection& connection : connections_) connection.channel.StopReceiving();
  }
  for (Connection& connection : connections_) connection.thread.join();
}

void StoreServer::RejectOldest() {
  const auto is_stranger = [](const Connection& connection) {
    return connection.standing == Connection::Standing::kStranger;
  };
  if (std::ranges::count_if(connections_, is_stranger) < kMaxStrangers) return;
  const auto oldest = std::ranges::find_if(connections_, is_stranger);
  const std::lock_guard lock(mutex_);
  if (oldest != connections_.end() && oldest->Becomes(Connection::Standing::kTurnedAway))
    oldest->channel.StopReceiving();
}

void StoreServer::Serve(Connection& connection) {
  bool is_rank = false;
  try {
    is_rank = Admit(connection);
    if (is_rank) Answer(connection);
  } catch (const std::exception&) {
    // The client has left or is a stranger, or rank 0 is leaving.
  }
  SendGoodbye(connection, is_rank);
  const std::lock_guard lock(mutex_);
  connection.channel.Close();
  if (connection.rank > 0) connected_.erase(connection.rank);
  connection.is_over = true;
  changed_.notify_all();
}

bool StoreServer::Admit(Connection& connection) {
  const Deadline deadline = Clock::now() + kHelloWithin;
  Channel& channel = connection.channel;
  const auto refuse = [&](FrameType type, const std::string& reason) {
    channel.Send({type, reason}, deadline);
    return false;
  };
  const Frame hello = channel.Receive(kMaxStrangerBytes, deadline);
  const std::vector<std::string> words = absl::StrSplit(hello.payload, '\n');
  if (hello.type != FrameType::kHello || words.size() != 4 || words[0] != kProtocol)
    return refuse(FrameType::kNo, "rank 0 runs another version of this program");
  if (words[2] != options_.run) return refuse(FrameType::kLater, "another run is there");
  if (words[1] != options_.job.name)
    return refuse(FrameType::kNo, absl::StrCat("rank 0 is of another job than '", words[1], "'"));
  const std::string nonce = RandomHex();
  const std::string own_proof = ProofOfRank0(options_.job.secret, hello.payload, nonce);
  channel.Send({FrameType::kChallenge, absl::StrCat(nonce, "\n", own_proof)}, deadline);

  const Frame join = channel.Receive(kMaxStrangerBytes, deadline);
  const auto [proof, rest] = Cut(join.payload);
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('\n', 2));
  int rank = 0;
  if (join.type != FrameType::kJoin ||
      !IsSameMac(proof, ProofOfRank(options_.job.secret, hello.payload, nonce, rest)) || parts.size() != 3 ||
      !absl::SimpleAtoi(parts[0], &rank) || rank < 1) {
    return refuse(FrameType::kNo, "GRADSYNC_SECRET is not the one of rank 0");
  }
  if (!connection.Becomes(Connection::Standing::kProven)) return false;
  const Frame answer = AnswerToJoin(connection, rank, parts[1], parts[2]);
  channel.Send(answer, Clock::now() + kTakeWithin);
  if (IsFailure(answer.type)) MarkInformed(rank);
  return answer.type == FrameType::kYes;
}

Frame StoreServer::AnswerToJoin(Connection& connection, int rank, const std::string& host,
                                const std::string& terms) {
  std::unique_lock lock(mutex_);
  const auto is_free = [&] { return !connected_.contains(rank) || is_stopping_; };
  if (!changed_.wait_until(lock, Clock::now() + kLeaveWithin, is_free)) {
    return {FrameType::kNo, absl::StrCat("another process is rank ", rank,
                                         " there: each job needs a place of "
                                         "its own, or a GRADSYNC_JOB of its own in the environment")};
  }
  if (has_begun_) return {FrameType::kLater, "the run there began without this process"};
  connected_.insert(rank);
  connection.rank = rank;
  if (cause_.empty()) cause_ = options_.check(rank, terms);
  if (cause_.empty() && rank < options_.size) {
    hosts_[static_cast<size_t>(rank)] = host;
    has_begun_ = std::ranges::all_of(hosts_, [](const auto& other) { return other.has_value(); });
  }
  if (has_begun_ || !cause_.empty()) WakeAll();
  changed_.wait(lock, [&] { return has_begun_ || !cause_.empty() || is_stopping_; });
  if (!has_begun_ && cause_.empty()) return {FrameType::kLater, "rank 0 is leaving"};
  if (!has_begun_) return CauseFrame();
  const auto append = [](std::string* out, const std::optional<std::string>& other) { out->append(*other); };
  return {FrameType::kYes, absl::StrJoin(hosts_, "\n", append)};
}

void StoreServer::Answer(Connection& connection) {
  for (;;) {
    const auto [type, payload] = connection.channel.Receive(kMaxPayloadBytes, Deadline::max());
    const auto [first, rest] = Cut(payload);
    Frame answer{FrameType::kYes, ""};
    int wait_ms = 0;
    try {
      if (type == FrameType::kSet && first.size() <= kMaxKeyBytes) {
        Set(first, rest, Deadline::max());
      } else if (type == FrameType::kGet && absl::SimpleAtoi(first, &wait_ms)) {
        const auto value = Get(rest, TimeFromNow(wait_ms));
        answer = value.has_value() ? Frame{FrameType::kYes, *value} : Frame{FrameType::kNone, ""};
      } else if (type == FrameType::kMeet) {
        const std::vector<std::string> words = absl::StrSplit(payload, absl::MaxSplits('\n', 4));
        int size = 0;
        int index = 0;
        const auto own = Unpack(words.back());
        if (words.size() != 5 || !absl::SimpleAtoi(words[0], &wait_ms) ||
            !absl::SimpleAtoi(words[1], &size) || !absl::SimpleAtoi(words[2], &index) ||
            words[3].size() > kMaxKeyBytes || size > options_.size || index < 0 || index >= size ||
            !own.has_value() || (own->size() != 1 && std::ssize(*own) != size)) {
          return;
        }
        std::vector<std::string> marked;
        for (const auto& value : Meet(words[3], index, size, *own, TimeFromNow(wait_ms)))
          marked.push_back(value.has_value() ? absl::StrCat("=", *value) : "");
        answer.payload = Pack(marked);
      } else if (type == FrameType::kFail || type == FrameType::kRefuse) {
        Fail(payload, type == FrameType::kRefuse ? FailureKind::kBadArgument : FailureKind::kOfRank);
      } else {
        return;  // ranks do not send this request
      }
    } catch (const JobFailed&) {
      const std::lock_guard lock(mutex_);
      answer = CauseFrame();
    }
    connection.channel.Send(answer, Clock::now() + kTakeWithin);
    if (IsFailure(answer.type)) return MarkInformed(connection.rank);
  }
}

void StoreServer::SendGoodbye(Connection& connection, bool is_rank) {
  Frame last{};
  {
    const std::lock_guard lock(mutex_);
    if (is_rank) {
      last = CauseFrame();
    } else if (is_stopping_ || connection.standing == Connection::Standing::kTurnedAway) {
      last = {FrameType::kLater, "rank 0 is leaving, or has too many others to answer"};
    }
  }
  if (last.payload.empty()) return;
  try {
    connection.channel.Send(last, Clock::now() + kTakeWithin);
  } catch (const std::runtime_error&) {
    // The client has left.
  }
}

void StoreServer::MarkInformed(int rank) {
  const std::lock_guard lock(mutex_);
  told_.insert(rank);
  changed_.notify_all();
}

}  // namespace gradsync::comm
