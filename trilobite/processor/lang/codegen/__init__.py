"""From kernel IR to a program of the ISA: legal operands, registers, instructions, tables for the tools."""
