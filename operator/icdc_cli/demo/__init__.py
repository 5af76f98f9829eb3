"""`icdc demo`: the main job on an embedded default, from empty tables to the proof of equality."""
