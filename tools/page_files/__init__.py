"""What the page that runs is made of: other projects' packages, and this project in one archive."""
