"""A chip of one's own: dlp-s without the formats that the workload never uses, with twice the bandwidth."""

MACHINE = """
name: mine
process_nm: 16
clock_ghz: 1.0
interlock: ranges
core:
  nram: {kib: 512, banks: 16, bytes_per_cycle: 256, reserved_kib: 128}
  wram: {kib: 512, banks: 16, bytes_per_cycle: 512}
  mfu: {geometry: systolic-ws, rows: 64, cols: 64, weight_buffers: 2, macs_per_cycle: {fp32: 1024}}
  vfu: {bytes_per_cycle: 256, granule_bytes: 128}
  io_dma: {bytes_per_cycle: 64, outstanding: 8}
  move_dma: {bytes_per_cycle: 128}
dram: {gb_per_s: 51.2, latency_ns: 100, efficiency: 0.85}
"""
