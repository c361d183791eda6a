#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "codegen/contract/window.h"

namespace deepjit {

namespace {

constexpr int64_t kBanks = 32;

int64_t size_of(const WindowSpec& spec) { return static_cast<int64_t>(dtype_size(spec.type)); }

// Turns that the first warps of a block take to read one pixel each: in each turn a bank gives one word, and 128 bytes
// are read at most.
int64_t turns_of_reads(const WindowSpec& spec, const WindowTile& tile, int64_t pitch) {
  const int64_t bytes = tile.chunk * size_of(spec);
  const int together = static_cast<int>(std::min<int64_t>(32, 128 / bytes));
  const int lanes = tile.channels / tile.chunk, down = tile.down / tile.rows;
  int64_t turns = 0;
  for (int first = 0; first < std::min(tile.items(), 128); first += together) {
    std::vector<int64_t> words;
    for (int item = first; item < std::min(first + together, tile.items()); ++item) {
      const int64_t y = item / lanes % down * tile.rows * spec.image.strides[0];
      const int64_t x = item / (lanes * down) * tile.pixels * spec.image.strides[1];
      const int64_t start = y * pitch + x * tile.channels * size_of(spec) + item % lanes * bytes;
      for (int64_t word = start / 4; word <= (start + bytes - 1) / 4; ++word) words.push_back(word);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int64_t of_bank[kBanks] = {};
    for (int64_t word : words) ++of_bank[word % kBanks];
    turns += *std::max_element(std::begin(of_bank), std::end(of_bank));
  }
  return turns;
}

}  // namespace

std::string WindowTile::to_string() const {
  std::string text = fmt::format("window{}x{}x{}", pixels, chunk, threads);
  if (rows != 1) text += fmt::format("r{}", rows);
  if (shares()) text += fmt::format("s{}x{}x{}", across, down, channels);
  return text;
}

WindowTile WindowTile::parse(const std::string& text) {
  WindowTile t;
  int end = 0, more = 0;
  const int found = std::sscanf(text.c_str(), "window%2dx%1dx%4d%n", &t.pixels, &t.chunk, &t.threads, &end);
  const char* rest = text.c_str() + (found == 3 ? end : 0);
  if (std::sscanf(rest, "r%1d%n", &t.rows, &more) == 1) rest += more;
  const bool shared = std::sscanf(rest, "s%3dx%3dx%3d", &t.across, &t.down, &t.channels) == 3;
  const bool whole = t.chunk == 1 || t.chunk == 2 || t.chunk == 4 || t.chunk == 8;
  bool fits = found == 3 && t.pixels > 0 && t.rows > 0 && whole && t.threads > 0 && t.threads <= 1024;
  fits = fits && t.threads % 32 == 0;
  if (fits && shared) {
    fits = t.across > 0 && t.down > 0 && t.channels > 0 && t.across % t.pixels == 0 && t.down % t.rows == 0 &&
           t.channels % t.chunk == 0;
  }
  if (!fits || t.to_string() != text) throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no tile of a window");
  return t;
}

WindowRows window_rows(const WindowSpec& spec, const WindowTile& tile) {
  const ContractImage& image = spec.image;
  const int64_t step = tile.rows == 1 ? image.dilations[0] : std::gcd(image.strides[0], image.dilations[0]);
  const int64_t last = (tile.rows - 1) * image.strides[0] + (image.kernel[0] - 1) * image.dilations[0];
  return {step, last / step + 1};
}

int64_t window_reach(const WindowSpec& spec, const WindowTile& tile) {
  const ContractImage& image = spec.image;
  return (tile.pixels - 1) * image.strides[1] + (image.kernel[1] - 1) * image.dilations[1] + 1;
}

SharedWindow shared_window(const WindowSpec& spec, const WindowTile& tile) {
  const ContractImage& image = spec.image;
  SharedWindow shared;
  shared.height = (tile.down - 1) * image.strides[0] + (image.kernel[0] - 1) * image.dilations[0] + 1;
  shared.width = (tile.across - 1) * image.strides[1] + (image.kernel[1] - 1) * image.dilations[1] + 1;
  const int64_t row = shared.width * tile.channels * size_of(spec);
  int64_t least = INT64_MAX;
  for (int64_t pad = 0; pad < 4 * kBanks; pad += 16) {
    const int64_t turns = turns_of_reads(spec, tile, row + pad);
    if (turns < least) shared.pitch = row + pad;
    least = std::min(least, turns);
  }
  shared.pixels_bytes = shared.height * shared.pitch;
  shared.weights_bytes = image.kernel[0] * image.kernel[1] * tile.channels * 4;
  return shared;
}

std::string why_not_tile(const WindowSpec& spec, const WindowTile& tile) {
  const ContractImage& image = spec.image;
  if (tile.chunk * size_of(spec) > 16 || image.channels % tile.chunk != 0) return "chunks do not fill a pixel";
  if (tile.rows > 1 && window_reach(spec, tile) > kMostHeldPixels) return "its windows are too wide to be held";
  if (!tile.shares()) return "";
  if (!spec.has_weights()) return "a pool reads memory";
  if (image.channels * size_of(spec) % 16 != 0 || tile.channels * size_of(spec) % 16 != 0) {
    return "shared pixels are copied 16 bytes at a time";
  }
  const char* large = "its windows do not fit shared memory";
  for (size_t axis : {0, 1}) {  // so that no product of sizes overflows
    if (image.kernel[axis] > kMostSharedAnywhere || image.strides[axis] > kMostSharedAnywhere) return large;
    if (image.dilations[axis] > kMostSharedAnywhere) return large;
  }
  const SharedWindow shared = shared_window(spec, tile);
  return shared.pixels_bytes + shared.weights_bytes > kMostSharedAnywhere ? large : "";
}

}  // namespace deepjit
