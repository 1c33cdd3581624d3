"""What the page on teaching needs and no other: its tables, from the labs and from records."""
