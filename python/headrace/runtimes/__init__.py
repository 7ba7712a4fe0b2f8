"""What runs a model: one module per framework behind one small interface."""
