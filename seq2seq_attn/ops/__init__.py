"""Everything that is done for speed: each operation with its reference implementation, fused form and kernel."""
