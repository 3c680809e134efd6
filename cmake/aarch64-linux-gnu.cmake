# Cross-compiles for AArch64 Linux with Debian's g++-aarch64-linux-gnu:
#   cmake --toolchain cmake/aarch64-linux-gnu.cmake -DVPU_BUILD_DELEGATE=OFF ...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
