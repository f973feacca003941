"""Golden questions from many sessions: equal conversations merged, and rules learned from differences."""
