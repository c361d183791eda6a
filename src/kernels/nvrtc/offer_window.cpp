// Which tiles a depthwise convolution or pool is offered.
#include <algorithm>
#include <cmath>

#include "kernels/nvrtc/offer_contract.h"

namespace deepjit::nvrtc_gpu {

namespace {

constexpr size_t kMostShared = 4, kMostTiles = 9;
constexpr int64_t kLeastPlaces = 9;             // of a window that may be worth a copy of the image
constexpr int64_t kManyPlaces = 16;             // of one that likely is
constexpr int64_t kMostSharedBytes = 48 << 10;  // of a block, so that several are resident
constexpr double kBytesACycle = 40;             // that a processor reads from the cache of all
constexpr int64_t kMostRegisters = 150;         // of a thread, for what it holds

// ---- tiles that share a part of the image -----------------------------------------------------------

// Registers of a thread for its sums, a row of pixels and a row of weights.
int64_t registers(const WindowSpec& spec, const WindowTile& t) {
  return t.chunk * (t.rows * t.pixels + window_reach(spec, t) + spec.image.kernel[1]);
}

// The part of its rows that a warp walks: those outside of the image for all of its threads are passed over.
double walked(const ContractProblem& p, const WindowSpec& spec, const WindowTile& t) {
  const WindowRows rows = window_rows(spec, t);
  const int64_t groups = ceil_div(p.out_height, t.rows);
  const int64_t together = ceil_div(32, t.channels / t.chunk);  // groups of rows of a warp
  int64_t all = 0, inside = 0;
  for (int64_t g = 0; g < groups; g += together) {
    const int64_t top = g * t.rows * p.strides[0] - p.pads[0];
    const int64_t last = (std::min(g + together, groups) - 1) * t.rows * p.strides[0] - p.pads[0];
    for (int64_t dy = 0; dy < rows.count; ++dy) {
      inside += last + dy * rows.step >= 0 && top + dy * rows.step < p.height ? 1 : 0;
    }
    all += rows.count;
  }
  return static_cast<double>(inside) / static_cast<double>(all);
}

// Instructions that a thread issues, but for its copies.
double instructions(const ContractProblem& p, const WindowSpec& spec, const WindowTile& t) {
  const ContractImage& image = spec.image;
  const auto taps = static_cast<double>(image.kernel[0] * t.rows);
  const auto across = static_cast<double>(image.kernel[1]);
  const double row = static_cast<double>(window_reach(spec, t)) * (1 + t.chunk) + 8;
  const double uses = across * t.pixels * t.chunk + across + 5;
  const double walk = static_cast<double>(window_rows(spec, t).count) * row + taps * uses;
  return walk * walked(p, spec, t) + t.rows * t.pixels * t.chunk * 2.0 + 170;
}

// What the tile may take, roughly, in cycles: turns of blocks over the processors, whose warps issue by fours; few
// warps leave a processor waiting. Copies run half beside that.
double rough_cost(const ContractProblem& p, const WindowSpec& spec, const WindowTile& t, int processors) {
  const SharedWindow shared = shared_window(spec, t);
  const double tiles = static_cast<double>(ceil_div(p.out_width, t.across) * ceil_div(p.out_height, t.down)) *
                       static_cast<double>(ceil_div(p.channels, t.channels));
  const double turns = std::ceil(tiles * static_cast<double>(p.images) / processors);
  const double copies = static_cast<double>(shared.width * shared.height * t.channels) / p.chunk();
  const double weights = static_cast<double>(p.kernel[0] * p.kernel[1] * t.channels) / p.chunk();
  const double warps = t.threads / 32.0;
  const double work = instructions(p, spec, t) + (copies * 9 + weights * 30) / t.threads;
  const double bytes = static_cast<double>(shared.pixels_bytes + shared.weights_bytes) + 1024;
  const double fit = std::min((200 << 10) / bytes, 65536 / (t.threads * static_cast<double>(registers(spec, t) + 16)));
  const double resident = std::clamp(std::floor(fit), 1.0, turns);
  const double busy = std::min(1.0, 0.4 + 0.6 * resident * warps / 14);
  const double reads = turns * copies * 16 / kBytesACycle;
  return std::ceil(turns * warps / 4) * work / busy + reads / 2 + 1500 + 700 * std::ceil(turns / resident);
}

// All that fit: so many channels, groups of pixels and of rows that a block has a few warps.
std::vector<WindowTile> shared_tiles(const ContractProblem& p, const WindowSpec& spec) {
  std::vector<WindowTile> tiles;
  const auto add = [&](WindowTile t, int channels, int across, int down) {
    t.channels = channels;
    t.across = across * t.pixels;
    t.down = down * t.rows;
    if (t.across >= p.out_width + t.pixels || t.down >= p.out_height + t.rows || t.down > 32 || t.across > 64) return;
    if (t.items() < 48 || t.items() > 512) return;
    t.threads = (t.items() + 31) / 32 * 32;
    if (registers(spec, t) > kMostRegisters || window_reach(spec, t) > kMostHeldPixels) return;
    if (!why_not_tile(spec, t).empty()) return;
    const SharedWindow shared = shared_window(spec, t);
    if (shared.pixels_bytes + shared.weights_bytes <= kMostSharedBytes) tiles.push_back(t);
  };
  for (int pixels : {8, 7, 6, 5, 4}) {
    for (int rows : {2, 1, 4}) {
      for (int chunk : {2, 4}) {
        for (int channels : {16, 24, 32, 48, 64}) {
          if (channels >= p.channels + 16) continue;
          for (int across : {1, 2, 4}) {
            for (int down : {4, 7, 8, 14}) add({pixels, rows, chunk}, channels, across, down);
          }
        }
      }
    }
  }
  return tiles;
}

// The likeliest of each kind of work for a thread: what a rough cost gets wrong differs between kinds.
std::vector<WindowTile> likeliest(const std::vector<WindowTile>& tiles, const ContractProblem& p,
                                  const WindowSpec& spec, int processors) {
  std::vector<std::pair<double, WindowTile>> by_cost;
  for (const WindowTile& t : tiles) by_cost.emplace_back(rough_cost(p, spec, t, processors), t);
  std::stable_sort(by_cost.begin(), by_cost.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
  std::vector<WindowTile> chosen;
  for (const auto& [cost, t] : by_cost) {
    const auto alike = [&tile = t](const WindowTile& o) { return o.rows == tile.rows && o.chunk == tile.chunk; };
    const bool known = std::any_of(chosen.begin(), chosen.end(), alike);
    if (!known && chosen.size() < kMostShared) chosen.push_back(t);
  }
  return chosen;
}

// ---- tiles that read memory -------------------------------------------------------------------------

// Of the widest tiles the one that leaves the fewest results of a line over.
int widest_window(int64_t width) {
  const auto computed = [&](int pixels) { return (width + pixels - 1) / pixels * pixels; };
  int best = 8;
  for (int pixels : {7, 6, 5}) {
    if (computed(pixels) < computed(best)) best = pixels;
  }
  return best;
}

// Much work a thread where that leaves enough threads, first what is likelier.
std::vector<WindowTile> direct_tiles(const ContractProblem& p, const WindowSpec& spec) {
  constexpr int64_t kEnough = 132 * 128;  // threads that keep a large GPU busy
  const int64_t results = checked_mul(checked_mul(p.images, p.out_height), checked_mul(p.out_width, p.channels));
  const int widest = widest_window(p.out_width);
  std::vector<WindowTile> tiles;
  const WindowTile shapes[] = {{widest, 2, 4}, {widest, 1, 4}, {4, 2, 4}, {4, 1, 8}, {4, 1, 4}, {2, 1, 4},
                               {2, 1, 2},      {1, 1, 8},      {1, 1, 2}, {4, 1, 1}, {1, 1, 1}};
  for (const WindowTile& t : shapes) {
    if (!why_not_tile(spec, t).empty()) continue;
    if (t.chunk == 1 && p.channels % 2 == 0) continue;
    if (t.pixels > 1 && (p.kernel[1] == 1 || p.out_width < t.pixels)) continue;
    if (t.rows > 1 && (p.kernel[0] <= p.strides[0] || p.out_height < t.rows)) continue;
    tiles.push_back(t);
  }
  std::stable_partition(tiles.begin(), tiles.end(),
                        [&](const WindowTile& t) { return results / (t.pixels * t.rows * t.chunk) >= kEnough; });
  return tiles;
}

}  // namespace

std::vector<WindowTile> window_tiles(const ContractProblem& p, const WindowSpec& spec, int processors) {
  const int64_t places = p.kernel[0] * p.kernel[1];
  std::vector<WindowTile> shared, direct = direct_tiles(p, spec);
  if (spec.has_weights() && places >= kLeastPlaces) shared = likeliest(shared_tiles(p, spec), p, spec, processors);
  direct.resize(std::min(direct.size(), kMostTiles - shared.size()));
  std::vector<WindowTile>& first = places >= kManyPlaces ? shared : direct;
  std::vector<WindowTile>& second = places >= kManyPlaces ? direct : shared;
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace deepjit::nvrtc_gpu
