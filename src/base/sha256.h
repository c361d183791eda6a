// SHA-256 by OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace deepjit {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::span<const uint8_t> bytes);
// The SHA-256 over the SHA-256 of each chunk of 1 MiB: the same strength, and the chunks are hashed in parallel.
Sha256 sha256_of_chunks(std::span<const uint8_t> bytes);
// The same over bytes that `view` shows piece by piece, from several threads; it may use the buffer it is given.
using ViewBytes = std::function<std::span<const uint8_t>(size_t offset, size_t size, std::vector<uint8_t>& buffer)>;
Sha256 sha256_of_chunks(size_t size, const ViewBytes& view);
std::string hex(std::span<const uint8_t> bytes);
std::string sha256_hex(const std::string& text);

}  // namespace deepjit
