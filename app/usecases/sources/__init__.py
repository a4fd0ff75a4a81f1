"""Sources: add them, upload files, index them, browse folders, and cut long turns."""
