"""Lab chip: describe a machine. It begins as dlp-s, which is a little too large and too slow.

trilobite lab chip --check this_file.py
trilobite machines show this_machine.yaml      (write MACHINE into a file)
"""

MACHINE = """
name: mine
process_nm: 16
clock_ghz: 1.0
interlock: ranges
core:
  nram: {kib: 512, banks: 16, bytes_per_cycle: 256, reserved_kib: 128}
  wram: {kib: 512, banks: 16, bytes_per_cycle: 512}
  mfu: {geometry: systolic-ws, rows: 64, cols: 64, weight_buffers: 2,
        macs_per_cycle: {int4: 8192, int8: 4096, fp8: 4096, int16: 2048, fp16: 2048, bf16: 2048,
                         tf32: 1024, fp32: 512}}
  vfu: {bytes_per_cycle: 128, granule_bytes: 128}
  io_dma: {bytes_per_cycle: 32, outstanding: 8}
  move_dma: {bytes_per_cycle: 128}
dram: {gb_per_s: 25.6, latency_ns: 100, efficiency: 0.85}
"""
