"""What each version has written: state documents, mapping, status, report and request, as JSON.

Each file holds what the code of that version wrote of the same table and the same moments. A file
is never edited: where the form changes, `python -m older.writing` writes that of the new one.
"""
