// Takes the place of kernels/isa/tiles_inl.h: the tiles are memory of the thread. What makes the
// CPU raise an exception aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/compiler.h"
#include "lanes.h"

namespace vpu::emulation {
namespace {

constexpr int kTileCount = 8;
constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // of a row

struct Tile {
  int rows = 0;  // 0: not configured
  int row_bytes = 0;
  uint8_t bytes[kTileRows][kTileBytes] = {};
};

thread_local Tile tiles[kTileCount];

Tile& configured(int tile) {
  if (tiles[tile].rows == 0) fault("a tile is used that is not configured");
  return tiles[tile];
}

void shape(int tile, int rows, int row_bytes) {
  const bool fits = tile < kTileCount ? rows <= kTileRows && row_bytes <= kTileBytes
                                      : rows == 0 && row_bytes == 0;
  if (!fits || (rows == 0) != (row_bytes == 0)) fault("a tile cannot have this shape");
  if (tile >= kTileCount) return;
  tiles[tile].rows = rows;
  tiles[tile].row_bytes = row_bytes;
}

}  // namespace
}  // namespace vpu::emulation

namespace vpu::isa {
namespace {

inline void release() {
  for (emulation::Tile& tile : emulation::tiles) tile = {};
}

// ldtilecfg: palette, start_row, 14 zeros, row_bytes[16], rows[16].
template <class Shapes>
void configure(const Shapes& shapes) {
  static_assert(sizeof(shapes) == 64);
  uint8_t bytes[64];
  uint16_t row_bytes[16];
  std::memcpy(bytes, &shapes, sizeof(bytes));
  std::memcpy(row_bytes, bytes + 16, sizeof(row_bytes));
  const uint8_t* rows = bytes + 48;
  if (bytes[0] != 1) emulation::fault("a tile configuration is not of palette 1");
  for (int i = 1; i < 16; ++i) {
    if (bytes[i] != 0) emulation::fault("a tile configuration has no zeros behind its palette");
  }
  release();
  for (int i = 0; i < 16; ++i) emulation::shape(i, rows[i], row_bytes[i]);
}

// tileloadd. The rest of a row, and the rows that the tile is not configured for, become zero.
template <int tile>
void load(const void* from, ptrdiff_t stride) {
  emulation::Tile& to = emulation::configured(tile);
  std::memset(to.bytes, 0, sizeof(to.bytes));
  for (int i = 0; i < to.rows; ++i) {
    std::memcpy(to.bytes[i], static_cast<const uint8_t*>(from) + i * stride,
                static_cast<size_t>(to.row_bytes));
  }
}

template <int tile>
void store(void* to, ptrdiff_t stride) {
  const emulation::Tile& from = emulation::configured(tile);
  for (int i = 0; i < from.rows; ++i) {
    std::memcpy(static_cast<uint8_t*>(to) + i * stride, from.bytes[i],
                static_cast<size_t>(from.row_bytes));
  }
}

// tdpbssd: c[m][n] += sum of a[m][k][0 .. 3] * b[k][n][0 .. 3], signed bytes into int32 that wrap.
// The tiles are as large as they ever are, so that there is nothing for sanitizers to see; with
// them it would take most of the time of whatever runs on tiles.
template <int c, int a, int b>
__attribute__((no_sanitize("address", "undefined", "thread"))) void multiply_add() {
  static_assert(c != a && c != b && a != b, "the instruction takes three different tiles");
  emulation::Tile& sums = emulation::configured(c);
  const emulation::Tile& x = emulation::configured(a);
  const emulation::Tile& w = emulation::configured(b);
  const bool fit = sums.rows == x.rows && sums.row_bytes == w.row_bytes &&
                   x.row_bytes == 4 * w.rows && sums.row_bytes % 4 == 0;
  if (!fit) emulation::fault("the shapes of the tiles of a product do not fit");
  for (int m = 0; m < sums.rows; ++m) {
    uint32_t row[emulation::kTileBytes / 4];
    std::memcpy(row, sums.bytes[m], sizeof(row));
    for (int k = 0; k < w.rows; ++k) {
      int8_t left[4];
      std::memcpy(left, x.bytes[m] + 4 * k, sizeof(left));
      const uint8_t* right = w.bytes[k];
      for (int n = 0; n < w.row_bytes / 4; ++n) {
        int sum = 0;  // of four products
        for (int i = 0; i < 4; ++i) sum += left[i] * static_cast<int8_t>(right[4 * n + i]);
        row[n] += static_cast<uint32_t>(sum);
      }
    }
    std::memcpy(sums.bytes[m], row, sizeof(row));
  }
}

}  // namespace
}  // namespace vpu::isa
