"""Scalar expressions and their readings: NumPy today, LLVM and Triton in the compiler."""
