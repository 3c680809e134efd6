// What libvpu.so shows to its users; everything else is hidden.
#pragma once

#define VPU_EXPORT __attribute__((visibility("default")))
