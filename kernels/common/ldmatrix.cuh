// ldmatrix: one warp reads four 8 x 8 matrices of 2-byte elements from shared
// memory and leaves them in the registers exactly as mma.sync wants them.
//
// Lane l gives the address of one row of eight elements (16 bytes, a multiple of
// 16): rows 0 to 7 of matrix l / 8. Each matrix is one wavefront if its eight rows
// lie in different banks. Lane l receives elements 2t, 2t+1 of row g of matrix i in
// r[i], with g = l / 4 and t = l % 4. From sm_75 on. Source: PTX ISA, "Warp-level
// matrix load instruction: ldmatrix".
#pragma once

// The address of an element in the shared memory window: what ldmatrix and cp.async
// take.
__device__ __forceinline__ unsigned shared_address(const void* element) {
    return static_cast<unsigned>(__cvta_generic_to_shared(element));
}

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}

// The same with every matrix transposed: lane l receives elements 2t, 2t+1 of
// COLUMN g. This is how a row-major B, stored k by n, becomes the column-wise
// operand that mma.sync wants.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
