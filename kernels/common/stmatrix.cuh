// stmatrix: one warp writes four 8 x 8 matrices of 2-byte elements from the
// registers in which wgmma and mma.sync leave their sums to shared memory (sm_90).
// The reverse of ldmatrix.
//
// Lane l gives the address of one row of eight elements (16 bytes, a multiple of
// 16): row l % 8 of matrix l / 8. It holds elements 2t, 2t+1 of row g of matrix i
// in r[i], with g = l / 4, t = l % 4. Source: PTX ISA, "Warp-level matrix store
// instruction: stmatrix".
#pragma once

__device__ __forceinline__ void stmatrix_x4(void* row, const unsigned* r) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(address),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
