"""What damaged files lead their readers into."""

import zipfile
import zlib

ZIP_DAMAGE = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Archives and what is packed in them; RuntimeError: encrypted, or of a version that is too new."""
