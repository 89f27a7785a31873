"""PTX taken apart: functions, variables, instructions, and the blocks that they make."""
