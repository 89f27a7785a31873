"""Parsed PTX: functions, variables, instructions and basic blocks."""
