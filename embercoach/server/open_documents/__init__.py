"""The texts and notebooks that an editor has open."""
