"""SASS: disassembly, instructions with their operands, basic blocks, instruction mix and schedule."""
