#include "base/sha256.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace deepjit {

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 out{};
  unsigned size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr);
  check_internal(ok == 1 && size == out.size(), "SHA-256 failed");
  return out;
}

std::string hex(std::span<const uint8_t> bytes) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (uint8_t b : bytes) {
    text += digits[b >> 4];
    text += digits[b & 15];
  }
  return text;
}

std::string sha256_hex(const std::string& text) {
  return hex(sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

}  // namespace deepjit
