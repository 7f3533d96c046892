#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Defines the messages between rank 0 and the other ranks. Each message is a frame: its type (1 byte), the
// length of its payload (4 bytes, big-endian) and the payload: fields separated by newlines. Only the last
// field may contain newlines.
//
// The secret of a job is never sent. Each side makes a nonce (a random number), and proves that it knows the
// secret by an HMAC-SHA256, keyed with the secret, of a text that contains both nonces. Rank 0 proves its
// knowledge first, so a process that only pretends to be rank 0 receives no HMAC keyed with the secret.
namespace gradsync::comm {

enum class FrameType : char {
  kHello = 'h',      // protocol, job, run, nonce
  kChallenge = 'c',  // nonce, proof of rank 0; the answer to kHello, unless it is kNo or kLater
  kJoin = 'j',       // proof, rank, host, terms; answered when all ranks have joined or the job fails
  kSet = 's',        // key, value
  kGet = 'g',        // milliseconds, key; answered when the key is set, the time is over or the job fails
  // A rank that calls Store::Meet sends a frame of type kMeet to rank 0. The fields of the frame's payload
  // are: milliseconds to wait, number of ranks that meet, index of the calling rank among them, key, list of
  // the calling rank's values (see Pack). Rank 0 answers as soon as all ranks that meet have called Meet, the
  // milliseconds to wait have passed, or the job has failed.
  kMeet = 'm',
  kFail = 'f',    // cause with which the job fails, unless it has failed before
  kRefuse = 'r',  // like kFail, but the cause is a bad argument of a rank
  kYes = 'y',     // hosts, a value, a list of values, or nothing
  kNone = '0',    // the key has not been set
  kLater = 'l',   // reason to retry later, such as another run at this place
  // Both kFailed and kRefused tell a rank that the job has failed; the payload is the cause. The type is
  // kRefused if Store::Fail was called with FailureKind::kBadArgument, and kFailed after any other failure.
  // After the failure, rank 0 answers the next kSet or kGet of each joined rank with kFailed or kRefused.
  // Rank 0 answers a kMeet with kFailed or kRefused only if not all ranks have met. When rank 0 destroys its
  // store after the failure, it also sends kFailed or kRefused, without a request, to each rank that is still
  // connected. Rank 0 closes the connection after it has sent kFailed, kRefused, kLater or kNo.
  kFailed = 'x',
  kRefused = 'b',
  kNo = 'n',  // reason
};

inline bool IsFailure(FrameType type) { return type == FrameType::kFailed || type == FrameType::kRefused; }

struct Frame {
  FrameType type;
  std::string payload;
};

inline constexpr char kProtocol[] = "gradsync rendezvous 4";
// kMaxStrangerBytes is the largest payload, in bytes, that rank 0 accepts from a process that has not joined.
// kMaxPayloadBytes is the largest payload, in bytes, that rank 0 accepts from a joined rank, and that a
// client accepts from rank 0.
inline constexpr size_t kMaxStrangerBytes = size_t{64} << 10;
inline constexpr size_t kMaxPayloadBytes = size_t{4} << 20;
inline constexpr size_t kMaxKeyBytes = 256;

// Pack encodes a list of byte strings as one string. Unpack decodes a string of Pack, and returns nullopt if
// the string is malformed.
std::string Pack(const std::vector<std::string>& list);
std::optional<std::vector<std::string>> Unpack(std::string_view text);

// A Channel is a connection between rank 0 and one other process. A Channel sends and receives frames, each
// with a type and a payload. Send and Receive throw std::runtime_error if they would have to wait past the
// deadline, or if the connection is lost. The exception's message always calls the other process "rank 0".
// After Send has thrown, later calls of Send throw too, but Receive may still return frames.
class Channel {
 public:
  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}  // a non-blocking socket

  void Send(const Frame& frame, Deadline deadline);
  // Waits for the next frame from the other process, and returns it. Throws std::runtime_error if the frame's
  // payload has more than `max_bytes` bytes.
  Frame Receive(size_t max_bytes, Deadline deadline);
  // Makes Receive stop waiting for data. After StopReceiving, Receive returns the frames that have arrived,
  // and throws when no whole frame is left. If another thread is blocked in Receive when StopReceiving is
  // called, this Receive throws. Send still works.
  void StopReceiving();
  void Close() { socket_.Close(); }

 private:
  void Fill(size_t length, Deadline deadline);

  FileDescriptor socket_;
  std::string received_;  // bytes of the next frame
};

// Returns the HMAC-SHA256 of `text`, keyed with `key`, in hexadecimal digits.
std::string ComputeMac(const std::string& key, const std::string& text);
// Returns whether two message authentication codes (results of ComputeMac) are equal. The time of the
// comparison does not depend on where the two codes first differ.
bool IsSameMac(const std::string& a, const std::string& b);

// Returns the HMAC by which rank 0 proves to a client that rank 0 knows `secret`. `hello` is the payload of
// the first frame (kHello), which the client has sent. `nonce` is the random number that rank 0 has chosen
// for this connection.
std::string ProofOfRank0(const std::string& secret, const std::string& hello, const std::string& nonce);
// Returns the HMAC by which a rank other than rank 0 proves to rank 0 that it knows `secret`. The HMAC also
// covers `rest`: the rank's request to join (kJoin) without its first field, the HMAC.
std::string ProofOfRank(const std::string& secret, const std::string& hello, const std::string& nonce,
                        const std::string& rest);

}  // namespace gradsync::comm
