// Nothing: what kernels know of the runtime is declared before every source.
#pragma once
