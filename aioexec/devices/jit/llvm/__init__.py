"""Element-wise kernels as LLVM IR: the expression language, its functions, and the loop nest around a body."""
