#!/usr/bin/env bash
# Puts a CUDA 13.0 toolkit together from the compiler and libraries that PyPI carries as wheels, for machines on which
# none is installed: enough to compile and link `infer`, not to run it on a GPU (that needs a driver).
#
#     tests/gpu/toolkit.sh [FOLDER]        default: target/cuda-toolkit; 1.4 GB, of which 0.5 GB is downloaded
#
# Needs Python 3 with pip. Nothing is done where the folder already holds these versions.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-target/cuda-toolkit}
wheels=(
    nvidia-cuda-nvcc==13.0.88
    nvidia-cuda-crt==13.0.88
    nvidia-nvvm==13.0.88
    nvidia-cuda-cccl==13.0.85
    nvidia-cuda-runtime==13.0.96
    nvidia-cublas==13.0.2.14
)

if [ "$(cat "$folder/wheels" 2>/dev/null)" = "${wheels[*]}" ]; then
    echo "$folder is ready"
    exit
fi

parent=$(dirname "$folder")
mkdir -p "$parent"
work=$(mktemp -d "$parent/cuda-toolkit.XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work/wheels" "${wheels[@]}"
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work"
done

root=$work/nvidia/cu13
chmod +x "$root"/bin/* "$root"/nvvm/bin/*
ln -s lib "$root/lib64"
# A linker looks for the unversioned names; the wheels hold only what a running program loads.
for library in "$root"/lib/lib*.so.*; do
    name=$(basename "$library")
    ln -s "$name" "$root/lib/${name%%.so.*}.so"
done
# llama-cpp-sys-2 asks for these archives, which the wheels lack. Empty ones satisfy it, and build.sh links the shared
# cuBLAS instead (culibos is needed by the static cuBLAS only). Its feature `dynamic-link` is no way around this: it
# builds llama.cpp as shared libraries too, and leaves out the one with `common_fit_params`, which places the layers.
for name in cublas_static cublasLt_static culibos; do
    ar rc "$root/lib/lib$name.a"
done

# A compiler that cannot build one file is better known now than in an hour.
cat >"$work/probe.cu" <<'CU'
#include <cublas_v2.h>
#include <cstdio>
__global__ void twice(float *x) { *x *= 2; }
int main() {
    float *x = nullptr;
    cublasHandle_t handle = nullptr;
    cudaError_t error = cudaMalloc(&x, sizeof *x);
    if (error == cudaSuccess) { twice<<<1, 1>>>(x); cublasCreate(&handle); }
    std::puts(cudaGetErrorString(error));
}
CU
"$root/bin/nvcc" -arch=sm_90 -o "$work/probe" "$work/probe.cu" -lcublas
echo "a program of one file compiled and linked; its answer here: $(LD_LIBRARY_PATH=$root/lib "$work/probe")"

printf '%s' "${wheels[*]}" >"$root/wheels"
rm -rf "$folder"
mv "$root" "$folder"
echo "$folder is ready"
