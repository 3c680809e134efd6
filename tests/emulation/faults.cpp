// What the emulated CPU refuses. Does what its argument names, which aborts; without one, prints
// the names.
#include <immintrin.h>

#include <cstdio>
#include <cstring>

#include "isa/tiles_inl.h"

namespace {

using namespace vpu::isa;

struct alignas(64) Shapes {
  uint8_t palette = 1;
  uint8_t zeros[15] = {};
  uint16_t row_bytes[16] = {64, 64, 64};
  uint8_t rows[16] = {16, 16, 16};
};

uint8_t memory[1024 + 64];

void configure_with(void (*change)(Shapes*)) {
  Shapes shapes;
  change(&shapes);
  configure(shapes);
}

struct Fault {
  const char* name;
  void (*run)();
};

const Fault kFaults[] = {
    {"unaligned_load", [] { _mm512_load_si512(memory + 1); }},
    {"load_before_configure", [] { load<0>(memory, 64); }},
    {"load_after_release", [] { configure(Shapes{}), release(), load<0>(memory, 64); }},
    {"store_of_a_tile_without_shape", [] { configure(Shapes{}), store<3>(memory, 64); }},
    {"product_of_a_tile_without_shape", [] { configure(Shapes{}), multiply_add<0, 1, 3>(); }},
    {"product_of_other_depths",
     [] {
       configure_with([](Shapes* s) { s->row_bytes[1] = 32; });
       multiply_add<0, 1, 2>();
     }},
    {"another_palette", [] { configure_with([](Shapes* s) { s->palette = 2; }); }},
    {"too_many_rows", [] { configure_with([](Shapes* s) { s->rows[0] = 17; }); }},
    {"rows_of_nothing", [] { configure_with([](Shapes* s) { s->row_bytes[0] = 0; }); }},
    {"a_ninth_tile", [] { configure_with([](Shapes* s) { s->rows[8] = s->row_bytes[8] = 16; }); }},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Fault& fault : kFaults) {
    if (argc == 1) std::puts(fault.name);
    if (argc == 2 && std::strcmp(argv[1], fault.name) == 0) fault.run();
  }
  return 0;
}
