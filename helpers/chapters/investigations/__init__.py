"""What the appendix of investigations needs and no other page."""
