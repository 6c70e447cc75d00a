"""What Sphinx does not bring: pages of the API by room, pages of plates, numbers in the text."""
