"""The op table, and lowering: from a Q/DQ graph to a VPU program to bytes."""
