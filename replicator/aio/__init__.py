"""What asyncio code shares: clocks, schedules, bounded concurrency. Imports nothing of the project."""
