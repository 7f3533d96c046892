#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/processes/file_descriptor.h"

// Messages between rank 0 and the other ranks. A frame is its type (1 byte), the length of its payload (4
// bytes, big-endian) and the payload: fields separated by newlines. Only the last field may contain newlines.
//
// The secret of a job is never sent. Each side makes a nonce (a random number), and proves that it knows the
// secret by an HMAC-SHA256 of both nonces. Rank 0 proves it first, so a stranger in its place learns nothing.
namespace gradsync::comm {

enum class FrameType : char {
  kHello = 'h',      // protocol, job, run, nonce
  kChallenge = 'c',  // nonce, proof of rank 0; the answer to kHello, unless it is kNo or kLater
  kJoin = 'j',       // proof, rank, host, terms; the answer is sent when all ranks have joined
  kSet = 's',        // key, value
  kGet = 'g',        // milliseconds, key; the answer is sent when the key is set or the time is over
  // A call of Store::Meet. Fields: milliseconds to wait, number of ranks that meet, index of this rank, key,
  // list of this rank's values (see Pack). The answer is sent when all these ranks have called Meet or the
  // time is over.
  kMeet = 'm',
  kFail = 'f',    // cause; later requests of all ranks are answered by kFailed
  kRefuse = 'r',  // cause: an argument cannot be used; later requests are answered by kRefused
  kYes = 'y',     // hosts, a value, a list of values, or nothing
  kNone = '0',    // the key has not been set
  kLater = 'l',   // reason to retry later, such as another run at this place
  // kFailed and kRefused carry the cause of the job's failure. They answer every request after the failure.
  // Before rank 0 ends, it also sends one of them to each rank without a request if the job has failed. Rank
  // 0 closes the connection after it has sent kFailed, kRefused, kLater or kNo.
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
// The largest payloads, in bytes, of a process that has not joined, and of a rank. Usual payloads are much
// smaller. A value that a rank stores may have a line for each of thousands of ranks.
inline constexpr size_t kMaxStrangerBytes = size_t{64} << 10;
inline constexpr size_t kMaxPayloadBytes = size_t{4} << 20;
inline constexpr size_t kMaxKeyBytes = 256;

// Pack encodes a list of byte strings as one string. Unpack decodes this string; nullopt if it is malformed.
std::string Pack(const std::vector<std::string>& list);
std::optional<std::vector<std::string>> Unpack(std::string_view text);

// A connection between rank 0 and one other rank, which carries frames (type and payload). All calls throw
// std::runtime_error at the deadline or when the other side, which the error calls rank 0, has closed the
// connection. After a missed deadline only Receive may be called.
class Channel {
 public:
  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}  // a non-blocking socket

  void Send(const Frame& frame, Deadline deadline);
  // Throws std::runtime_error for a payload of more than `max_bytes`.
  Frame Receive(size_t max_bytes, Deadline deadline);
  // Makes Receive throw, also in other threads, when all received data has been read. Send still works.
  void StopReceiving();
  void Close() { socket_.Close(); }

 private:
  void Fill(size_t length, Deadline deadline);

  FileDescriptor socket_;
  std::string received_;  // bytes of the next frame
};

// Returns the HMAC-SHA256 in hexadecimal digits.
std::string ComputeMac(const std::string& key, const std::string& text);
// Compares two MACs in constant time.
bool IsSameMac(const std::string& a, const std::string& b);

// `hello` is the payload of the connection's first frame (kHello). `nonce` is rank 0's nonce.
std::string ProofOfRank0(const std::string& secret, const std::string& hello, const std::string& nonce);
// `rest` is the payload of the frame with which a rank joins (kJoin), without the proof at its start.
std::string ProofOfRank(const std::string& secret, const std::string& hello, const std::string& nonce,
                        const std::string& rest);

}  // namespace gradsync::comm
