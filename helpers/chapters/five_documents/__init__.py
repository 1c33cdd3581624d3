"""What the appendix on the five documents needs and no other page."""
