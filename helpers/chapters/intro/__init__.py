"""The first page: the climb as a table, and the documents that the book follows."""
