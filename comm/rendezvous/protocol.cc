#include "comm/rendezvous/protocol.h"

#include <arpa/inet.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/rendezvous/network.h"

namespace gradsync::comm {
namespace {

constexpr size_t kHeaderBytes = 5;

const uint8_t* Bytes(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

// A process that ends with unread data in its socket resets the connection.
[[noreturn]] void ThrowLost(int error) {
  if (error == ECONNRESET || error == EPIPE) throw std::runtime_error("rank 0 closed the connection");
  throw std::runtime_error("lost the connection to rank 0: " + ErrorText(error));
}

}  // namespace

std::string Pack(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& value : list) absl::StrAppend(&text, value.size(), "\n", value);
  return text;
}

std::optional<std::vector<std::string>> Unpack(std::string_view text) {
  std::vector<std::string> list;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    size_t bytes = 0;
    if (end == text.npos || !absl::SimpleAtoi(std::string(text.substr(0, end)), &bytes)) return std::nullopt;
    text.remove_prefix(end + 1);
    if (bytes > text.size()) return std::nullopt;
    list.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return list;
}

void Channel::Send(const Frame& frame, Deadline deadline) {
  const uint32_t length = htonl(static_cast<uint32_t>(frame.payload.size()));
  std::string bytes(1, static_cast<char>(frame.type));
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += frame.payload;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t sent = send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    const int error = errno;
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (error != EINTR && (error != EAGAIN || !WaitFor(socket_, POLLOUT, deadline))) {
      // The other side would interpret the next frame as the rest of this frame.
      shutdown(socket_.get(), SHUT_WR);
      ThrowLost(error);
    }
  }
}

Frame Channel::Receive(size_t max_bytes, Deadline deadline) {
  Fill(kHeaderBytes, deadline);
  uint32_t length = 0;
  std::memcpy(&length, received_.data() + 1, sizeof(length));
  length = ntohl(length);
  if (length > max_bytes)
    throw std::runtime_error(absl::StrCat("what answers for rank 0 announces ", length, " bytes"));
  Fill(kHeaderBytes + length, deadline);
  const std::string frame = std::exchange(received_, "");
  return {static_cast<FrameType>(frame[0]), frame.substr(kHeaderBytes)};
}

void Channel::Fill(size_t length, Deadline deadline) {
  while (received_.size() < length) {
    const size_t done = received_.size();
    received_.resize(length);
    const ssize_t received = recv(socket_.get(), received_.data() + done, length - done, 0);
    const int error = errno;
    received_.resize(done + static_cast<size_t>(std::max<ssize_t>(received, 0)));
    if (received > 0) continue;
    if (received == 0) {
      ThrowLost(ECONNRESET);
    } else if (error == EAGAIN && !WaitFor(socket_, POLLIN, deadline)) {
      throw std::runtime_error("rank 0 does not answer");
    } else if (error != EINTR && error != EAGAIN) {
      ThrowLost(error);
    }
  }
}

void Channel::StopReceiving() { shutdown(socket_.get(), SHUT_RD); }

std::string ComputeMac(const std::string& key, const std::string& text) {
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, key.size(), Bytes(key));
  hmac_sha256_update(&context, text.size(), Bytes(text));
  std::string digest(SHA256_DIGEST_SIZE, '\0');
  hmac_sha256_digest(&context, digest.size(), reinterpret_cast<uint8_t*>(digest.data()));
  return absl::BytesToHexString(digest);
}

bool IsSameMac(const std::string& a, const std::string& b) {
  return a.size() == b.size() && memeql_sec(a.data(), b.data(), a.size()) != 0;
}

// The text contains the role, so that the proof of one side cannot be sent back as the proof of the other
// side.
std::string ProofOfRank0(const std::string& secret, const std::string& hello, const std::string& nonce) {
  return ComputeMac(secret, absl::StrCat("rank 0\n", hello, "\n", nonce));
}

std::string ProofOfRank(const std::string& secret, const std::string& hello, const std::string& nonce,
                        const std::string& rest) {
  return ComputeMac(secret, absl::StrCat("other rank\n", hello, "\n", nonce, "\n", rest));
}

}  // namespace gradsync::comm
